// RUN: optimus-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(optimus-advance-reductions))' --verify-roundtrip --mlir-print-local-scope | FileCheck %s

#part = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{}, {}], unreduced = {"data"}>>
#mine = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"data"}, {}]>>
#x = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"data"}, {}]>>
optimus.mesh @mesh <["data" = 2]>

// Each gradient is shared out where it is made, in the order of the program,
// not where the norm reads it.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[W:.*]] = optimus.matmul %arg0, %arg1
// CHECK-NEXT: %[[MINE:.*]] = ccl.reduce_scatter %[[W]]
// CHECK-NEXT: %[[Y:.*]] = optimus.gelu %arg1
// CHECK-NEXT: %[[V:.*]] = optimus.matmul %arg0, %[[Y]]
// CHECK-NEXT: %[[YOURS:.*]] = ccl.reduce_scatter %[[V]]
// CHECK-NEXT: %[[Z:.*]] = optimus.gelu %[[Y]]
// CHECK-NEXT: optimus.sum_squares %[[MINE]], %[[YOURS]]
func.func @gradients(%x: tensor<8x8xf32, #x>, %dy: tensor<8x8xf32, #x>) -> (tensor<f32, #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"data"}>>>, tensor<8x8xf32, #x>) {
  %w = optimus.matmul %x, %dy {transpose_a} : (tensor<8x8xf32, #x>, tensor<8x8xf32, #x>) -> tensor<8x8xf32, #part>
  %y = optimus.gelu %dy : tensor<8x8xf32, #x>
  %v = optimus.matmul %x, %y {transpose_a} : (tensor<8x8xf32, #x>, tensor<8x8xf32, #x>) -> tensor<8x8xf32, #part>
  %z = optimus.gelu %y : tensor<8x8xf32, #x>
  %0 = ccl.reduce_scatter %w {axis = "data", dim = 0 : i64} : (tensor<8x8xf32, #part>) -> tensor<4x8xf32, #mine>
  %1 = ccl.reduce_scatter %v {axis = "data", dim = 0 : i64} : (tensor<8x8xf32, #part>) -> tensor<4x8xf32, #mine>
  %sum = optimus.sum_squares %0, %1 : (tensor<4x8xf32, #mine>, tensor<4x8xf32, #mine>) -> tensor<f32, #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"data"}>>>
  return %sum, %z : tensor<f32, #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"data"}>>>, tensor<8x8xf32, #x>
}

// -----

#part = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{}, {}], unreduced = {"data"}>>
#mine = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"data"}, {}]>>
optimus.mesh @mesh <["data" = 2]>

// A source that is used besides stays until then; one that is an argument, or
// that is used later, is not freed.
// CHECK-LABEL: func.func @uses(
// CHECK: %[[SUM:.*]] = optimus.add %arg0, %arg1
// CHECK-NEXT: %[[TWICE:.*]] = optimus.add %[[SUM]], %[[SUM]]
// CHECK-NEXT: ccl.reduce_scatter %[[SUM]]
// CHECK-NEXT: %[[LONG:.*]] = optimus.add %[[TWICE]], %arg1
// CHECK-NEXT: %[[MORE:.*]] = optimus.add %[[TWICE]], %[[LONG]]
// CHECK-NEXT: ccl.reduce_scatter %arg1
// CHECK-NEXT: ccl.reduce_scatter %[[LONG]]
func.func @uses(%a: tensor<8x8xf32, #part>, %b: tensor<8x8xf32, #part>) -> (tensor<4x8xf32, #mine>, tensor<4x8xf32, #mine>, tensor<4x8xf32, #mine>, tensor<8x8xf32, #part>) {
  %sum = optimus.add %a, %b : (tensor<8x8xf32, #part>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
  %twice = optimus.add %sum, %sum : (tensor<8x8xf32, #part>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
  %long = optimus.add %twice, %b : (tensor<8x8xf32, #part>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
  %more = optimus.add %twice, %long : (tensor<8x8xf32, #part>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
  %0 = ccl.reduce_scatter %b {axis = "data", dim = 0 : i64} : (tensor<8x8xf32, #part>) -> tensor<4x8xf32, #mine>
  %1 = ccl.reduce_scatter %sum {axis = "data", dim = 0 : i64} : (tensor<8x8xf32, #part>) -> tensor<4x8xf32, #mine>
  %2 = ccl.reduce_scatter %long {axis = "data", dim = 0 : i64} : (tensor<8x8xf32, #part>) -> tensor<4x8xf32, #mine>
  %last = optimus.add %more, %long : (tensor<8x8xf32, #part>, tensor<8x8xf32, #part>) -> tensor<8x8xf32, #part>
  return %0, %1, %2, %last : tensor<4x8xf32, #mine>, tensor<4x8xf32, #mine>, tensor<4x8xf32, #mine>, tensor<8x8xf32, #part>
}

// -----

#part = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}], unreduced = {"data"}>>
#mine = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row", "data"}, {"col"}]>>
#x = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"data", "row"}, {"col"}]>>
optimus.mesh @mesh <["data" = 2, "row" = 2, "col" = 2]>

// Products that are expanded together stay together.
// CHECK-LABEL: func.func @group(
// CHECK: %[[W:.*]] = ccl.matmul
// CHECK-NEXT: %[[V:.*]] = ccl.matmul
// CHECK-NEXT: ccl.reduce_scatter %[[W]]
// CHECK-NEXT: ccl.reduce_scatter %[[V]]
// CHECK-NEXT: optimus.gelu
func.func @group(%x: tensor<4x4xf32, #x>, %dy: tensor<4x4xf32, #x>, %dz: tensor<4x4xf32, #x>) -> (tensor<2x4xf32, #mine>, tensor<2x4xf32, #mine>, tensor<4x4xf32, #x>) {
  %w = ccl.matmul %x, %dy {ccl.group = 0 : i64, stationary = "b", panels = 2 : i64, transpose_a} : (tensor<4x4xf32, #x>, tensor<4x4xf32, #x>) -> tensor<4x4xf32, #part>
  %v = ccl.matmul %x, %dz {ccl.group = 0 : i64, stationary = "b", panels = 2 : i64, transpose_a} : (tensor<4x4xf32, #x>, tensor<4x4xf32, #x>) -> tensor<4x4xf32, #part>
  %y = optimus.gelu %dz : tensor<4x4xf32, #x>
  %0 = ccl.reduce_scatter %w {axis = "data", dim = 0 : i64} : (tensor<4x4xf32, #part>) -> tensor<2x4xf32, #mine>
  %1 = ccl.reduce_scatter %v {axis = "data", dim = 0 : i64} : (tensor<4x4xf32, #part>) -> tensor<2x4xf32, #mine>
  return %0, %1, %y : tensor<2x4xf32, #mine>, tensor<2x4xf32, #mine>, tensor<4x4xf32, #x>
}
