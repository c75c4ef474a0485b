// RUN: optimus-interpret %s --function c_stays --compare-with serial --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function a_stays --compare-with serial --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function b_stays --compare-with serial_at_b --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function local_then_reduced --compare-with serial --draw 1 | FileCheck %s

// Products of parts are the products of the whole tensors; on 2x3 ranks every
// dimension but 3 and 2 is padded: 5 to 6, 7 to 12, 4 to 6.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[5-9]}} from @serial

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[5, 7], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[7, 3, 4, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#wt = #ccl.local<[7, 3, 4, 2], #optimus.sharding<@mesh, [{"col"}, {}, {"row"}, {}]>>
#y = #ccl.local<[5, 3, 4, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>

func.func @serial(%x: tensor<5x7xf32>, %w: tensor<7x3x4x2xf32>) -> tensor<5x3x4x2xf32> {
  %0 = optimus.matmul %x, %w : (tensor<5x7xf32>, tensor<7x3x4x2xf32>) -> tensor<5x3x4x2xf32>
  return %0 : tensor<5x3x4x2xf32>
}
func.func @c_stays(%x: tensor<3x4xf32, #x>, %w: tensor<6x3x2x2xf32, #w>) -> tensor<3x3x2x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<3x4xf32, #x>, tensor<6x3x2x2xf32, #w>) -> tensor<3x3x2x2xf32, #y>
  return %0 : tensor<3x3x2x2xf32, #y>
}
func.func @a_stays(%x: tensor<3x4xf32, #x>, %w: tensor<4x3x3x2xf32, #wt>) -> tensor<3x3x2x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64} : (tensor<3x4xf32, #x>, tensor<4x3x3x2xf32, #wt>) -> tensor<3x3x2x2xf32, #y>
  return %0 : tensor<3x3x2x2xf32, #y>
}

// dW = Xᵀ·dY: the contracted rows are sharded alike, the streamed m moves to its
// owners over the axis that shards the rows.
func.func @serial_at_b(%x: tensor<5x7xf32>, %dy: tensor<5x3x4x2xf32>) -> tensor<7x3x4x2xf32> {
  %0 = optimus.matmul %x, %dy {transpose_a} : (tensor<5x7xf32>, tensor<5x3x4x2xf32>) -> tensor<7x3x4x2xf32>
  return %0 : tensor<7x3x4x2xf32>
}
func.func @b_stays(%x: tensor<3x4xf32, #x>, %dy: tensor<3x3x2x2xf32, #y>) -> tensor<6x3x2x2xf32, #w> {
  %0 = ccl.matmul %x, %dy {stationary = "b", panels = 6 : i64, transpose_a} : (tensor<3x4xf32, #x>, tensor<3x3x2x2xf32, #y>) -> tensor<6x3x2x2xf32, #w>
  return %0 : tensor<6x3x2x2xf32, #w>
}

#xl = #ccl.local<[5, 7], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#wl = #ccl.local<[7, 3, 4, 2], #optimus.sharding<@mesh, [{"col"}, {}, {}, {}]>>
#yu = #ccl.local<[5, 3, 4, 2], #optimus.sharding<@mesh, [{"row"}, {}, {}, {}], unreduced = {"col"}>>
#yr = #ccl.local<[5, 3, 4, 2], #optimus.sharding<@mesh, [{"row"}, {}, {}, {}]>>
func.func @local_then_reduced(%x: tensor<3x4xf32, #xl>, %w: tensor<4x3x4x2xf32, #wl>) -> tensor<3x3x4x2xf32, #yr> {
  %0 = optimus.matmul %x, %w : (tensor<3x4xf32, #xl>, tensor<4x3x4x2xf32, #wl>) -> tensor<3x3x4x2xf32, #yu>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<3x3x4x2xf32, #yu>) -> tensor<3x3x4x2xf32, #yr>
  return %1 : tensor<3x3x4x2xf32, #yr>
}
