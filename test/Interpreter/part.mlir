// RUN: optimus-interpret %s --function sharded --compare-with whole --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function split --compare-with packed --draw 1 | FileCheck %s --check-prefix=SPLIT
// RUN: optimus-opt %s --optimus-verify-partition

// Heads may be sharded.
// CHECK: result0: 0.0e+00 from @whole

// Attention of the parts is that of the packed tensor.
// SPLIT: result0: 0.0e+00 from @packed

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[2, 2, 3, 3, 2], #optimus.sharding<@mesh, [{}, {}, {}, {"col"}, {}]>>
#r = #ccl.local<[2, 2, 3, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>

func.func @whole(%x: tensor<2x2x3x3x2xf32>) -> tensor<2x2x3x2xf32> {
  %0 = optimus.part %x {index = 2 : i64} : (tensor<2x2x3x3x2xf32>) -> tensor<2x2x3x2xf32>
  return %0 : tensor<2x2x3x2xf32>
}
func.func @sharded(%x: tensor<2x2x3x2x2xf32, #x>) -> tensor<2x2x2x2xf32, #r> {
  %0 = optimus.part %x {index = 2 : i64} : (tensor<2x2x3x2x2xf32, #x>) -> tensor<2x2x2x2xf32, #r>
  return %0 : tensor<2x2x2x2xf32, #r>
}

func.func @packed(%x: tensor<2x4x3x2x4xf32>) -> tensor<2x4x2x4xf32> {
  %0, %lse = optimus.attention %x {causal} : (tensor<2x4x3x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
  return %0 : tensor<2x4x2x4xf32>
}
func.func @split(%x: tensor<2x4x3x2x4xf32>) -> tensor<2x4x2x4xf32> {
  %q = optimus.part %x {index = 0 : i64} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x2x4xf32>
  %k = optimus.part %x {index = 1 : i64} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x2x4xf32>
  %v = optimus.part %x {index = 2 : i64} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x2x4xf32>
  %0, %lse = optimus.attention %q, %k, %v {causal} : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
  return %0 : tensor<2x4x2x4xf32>
}
