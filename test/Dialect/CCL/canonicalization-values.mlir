// RUN: optimus-interpret %s --function written --compare-with meaning --draw 1 | FileCheck %s
// RUN: %optimus-opt %s --canonicalize -o %t.mlir
// RUN: FileCheck %s --check-prefix=SIMPLER --input-file %t.mlir
// RUN: optimus-interpret %t.mlir --function written --compare-with meaning --draw 1 | FileCheck %s

// What is written and what canonicalization makes of it mean the same, padding
// included: 5 is padded to 6 by 2×3 ranks. Sums of 3 and of 2 numbers differ
// from one of 5 in the last bits of f64.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[5-9]}} from @meaning
// CHECK: result1: 0.0e+00 from @meaning
// CHECK: result2: 0.0e+00 from @meaning

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#rows = #ccl.local<[5, 5], #optimus.sharding<@mesh, [{"row"}, {}]>>
#both = #ccl.local<[5, 5], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#whole = #ccl.local<[5, 5], #optimus.sharding<@mesh, [{}, {}]>>
#partial = #ccl.local<[5], #optimus.sharding<@mesh, [{}], unreduced = {"row"}>>
#sum = #ccl.local<[5], #optimus.sharding<@mesh, [{}]>>
#part = #ccl.local<[5], #optimus.sharding<@mesh, [{"row"}]>>

func.func @meaning(%x: tensor<5x5xf32>) -> (tensor<5xf32>, tensor<5x5xf32>, tensor<5x5xf32>) {
  %0 = optimus.sum_leading %x : (tensor<5x5xf32>) -> tensor<5xf32>
  return %0, %x, %x : tensor<5xf32>, tensor<5x5xf32>, tensor<5x5xf32>
}

// SIMPLER-LABEL: func.func @written
// SIMPLER-SAME: (%[[X:.*]]: tensor<3x6xf32,
// SIMPLER-NEXT: %[[A:.*]] = optimus.sum_leading %[[X]]
// SIMPLER-NEXT: %[[S:.*]] = ccl.reduce_scatter %[[A]]
// SIMPLER-NEXT: return %[[S]], %[[X]], %[[X]]
func.func @written(%x: tensor<3x6xf32, #rows>) -> (tensor<3xf32, #part>, tensor<3x6xf32, #rows>, tensor<3x6xf32, #rows>) {
  %0 = optimus.sum_leading %x : (tensor<3x6xf32, #rows>) -> tensor<6xf32, #partial>
  %1 = ccl.all_reduce %0 {axis = "row"} : (tensor<6xf32, #partial>) -> tensor<6xf32, #sum>
  %2 = ccl.slice %1 {axis = "row", dim = 0 : i64} : (tensor<6xf32, #sum>) -> tensor<3xf32, #part>
  %3 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<3x6xf32, #rows>) -> tensor<3x2xf32, #both>
  %4 = ccl.all_gather %3 {axis = "col", dim = 1 : i64} : (tensor<3x2xf32, #both>) -> tensor<3x6xf32, #rows>
  %5 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<3x6xf32, #rows>) -> tensor<6x6xf32, #whole>
  %6 = ccl.slice %5 {axis = "row", dim = 0 : i64} : (tensor<6x6xf32, #whole>) -> tensor<3x6xf32, #rows>
  return %2, %4, %6 : tensor<3xf32, #part>, tensor<3x6xf32, #rows>, tensor<3x6xf32, #rows>
}
