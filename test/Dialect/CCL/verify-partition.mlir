// RUN: optimus-opt %s --optimus-verify-partition | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 2]>

#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#rows = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>
#partial = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#w = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#v = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}]>>
#vu = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
#moments = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

// Sums over what is sharded are partial sums, and partial sums add up to partial sums.
// CHECK-LABEL: func.func @partial_sums
func.func @partial_sums(%x: tensor<2x4xf32, #x>, %w: tensor<4x8xf32, #w>) -> (tensor<2x8xf32, #rows>, tensor<4xf32, #v>) {
  %0 = optimus.matmul %x, %w : (tensor<2x4xf32, #x>, tensor<4x8xf32, #w>) -> tensor<2x8xf32, #partial>
  %1 = optimus.add %0, %0 : (tensor<2x8xf32, #partial>, tensor<2x8xf32, #partial>) -> tensor<2x8xf32, #partial>
  %2 = ccl.all_reduce %1 {axis = "col"} : (tensor<2x8xf32, #partial>) -> tensor<2x8xf32, #rows>
  %3 = optimus.sum_leading %x : (tensor<2x4xf32, #x>) -> tensor<4xf32, #vu>
  %4 = ccl.all_reduce %3 {axis = "row"} : (tensor<4xf32, #vu>) -> tensor<4xf32, #v>
  return %2, %4 : tensor<2x8xf32, #rows>, tensor<4xf32, #v>
}

// Moments stand side by side as the parts of the row do.
// CHECK-LABEL: func.func @moments
func.func @moments(%x: tensor<2x4xf32, #x>) -> tensor<2x2xf32, #moments> {
  %0 = optimus.row_moments %x : (tensor<2x4xf32, #x>) -> tensor<2x2xf32, #moments>
  return %0 : tensor<2x2xf32, #moments>
}

// CHECK-LABEL: func.func @norm
func.func @norm(%a: tensor<2x8xf32, #rows>) -> tensor<f32> {
  %0 = optimus.sum_squares %a, %a : (tensor<2x8xf32, #rows>, tensor<2x8xf32, #rows>) -> tensor<f32, #sum>
  %1 = ccl.all_reduce %0 {axis = "row"} : (tensor<f32, #sum>) -> tensor<f32>
  %2 = optimus.sqrt %1 : tensor<f32>
  return %2 : tensor<f32>
}
