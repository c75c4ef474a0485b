// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(optimus-to-exec,func.func(optimus-place-buffers))' | FileCheck %s

// What the products of docs/products.md move: with |X| = 8·12·4 = 384 bytes,
// |W| = 12·6·4 = 288 and |Y| = 8·6·4 = 192, (C - 1) or (R - 1) times the whole
// of each tensor that moves over "col" or "row". Both move in 6 panels.

optimus.mesh @mesh <["row" = 2, "col" = 3]>

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
// The layouts in which X, and in which W, stays in the forward product.
#w_down = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#x_turned = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>

// X over "col": 2·384. W over "row": 1·288.
// CHECK-LABEL: func.func @y_stays
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 768 : i64, messages = 6 : i64}]
func.func @y_stays(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y> {
  %y = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return %y : tensor<4x2xf32, #y>
}

// dX = dY·Wᵀ with dY in place: dX over "col", W over "row".
// CHECK-LABEL: func.func @y_stays_dx
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 768 : i64, messages = 6 : i64}]
func.func @y_stays_dx(%dy: tensor<4x2xf32, #y>, %w: tensor<6x2xf32, #w>) -> tensor<4x4xf32, #x> {
  %dx = ccl.matmul %dy, %w {stationary = "a", panels = 6 : i64, transpose_b} : (tensor<4x2xf32, #y>, tensor<6x2xf32, #w>) -> tensor<4x4xf32, #x>
  return %dx : tensor<4x4xf32, #x>
}

// dW = Xᵀ·dY with dY in place: X over "col", dW over "row".
// CHECK-LABEL: func.func @y_stays_dw
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 768 : i64, messages = 6 : i64}]
func.func @y_stays_dw(%x: tensor<4x4xf32, #x>, %dy: tensor<4x2xf32, #y>) -> tensor<6x2xf32, #w> {
  %dw = ccl.matmul %x, %dy {stationary = "b", panels = 6 : i64, transpose_a} : (tensor<4x4xf32, #x>, tensor<4x2xf32, #y>) -> tensor<6x2xf32, #w>
  return %dw : tensor<6x2xf32, #w>
}

// Y over "col": 2·192. W over "row": 1·288.
// CHECK-LABEL: func.func @x_stays
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 384 : i64, messages = 6 : i64}]
func.func @x_stays(%x: tensor<4x4xf32, #x>, %w: tensor<4x3xf32, #w_down>) -> tensor<4x2xf32, #y> {
  %y = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<4x3xf32, #w_down>) -> tensor<4x2xf32, #y>
  return %y : tensor<4x2xf32, #y>
}

// CHECK-LABEL: func.func @x_stays_dx
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 384 : i64, messages = 6 : i64}]
func.func @x_stays_dx(%dy: tensor<4x2xf32, #y>, %w: tensor<4x3xf32, #w_down>) -> tensor<4x4xf32, #x> {
  %dx = ccl.matmul %dy, %w {stationary = "c", panels = 6 : i64, transpose_b} : (tensor<4x2xf32, #y>, tensor<4x3xf32, #w_down>) -> tensor<4x4xf32, #x>
  return %dx : tensor<4x4xf32, #x>
}

// CHECK-LABEL: func.func @x_stays_dw
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 384 : i64, messages = 6 : i64}]
func.func @x_stays_dw(%x: tensor<4x4xf32, #x>, %dy: tensor<4x2xf32, #y>) -> tensor<4x3xf32, #w_down> {
  %dw = ccl.matmul %x, %dy {stationary = "a", panels = 6 : i64, transpose_a} : (tensor<4x4xf32, #x>, tensor<4x2xf32, #y>) -> tensor<4x3xf32, #w_down>
  return %dw : tensor<4x3xf32, #w_down>
}

// The 8 rows are sharded by "col" in X and by "row" in Y: padded to 12, which 6
// panels divide. Padding moves too: X over "col" 2·576, Y over "row" 1·288.
// CHECK-LABEL: func.func @w_stays
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 288 : i64, messages = 6 : i64}, {axis = "col", bytes = 1152 : i64, messages = 6 : i64}]
func.func @w_stays(%x: tensor<4x6xf32, #x_turned>, %w: tensor<6x2xf32, #w>) -> tensor<6x2xf32, #y> {
  %y = ccl.matmul %x, %w {stationary = "b", panels = 6 : i64} : (tensor<4x6xf32, #x_turned>, tensor<6x2xf32, #w>) -> tensor<6x2xf32, #y>
  return %y : tensor<6x2xf32, #y>
}

// -----

// An axis of one rank moves nothing and is not counted: 1×3 streams X alone.
optimus.mesh @mesh <["row" = 1, "col" = 3]>

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// CHECK-LABEL: func.func @one_row
// CHECK-SAME: exec.communication = [{axis = "col", bytes = 768 : i64, messages = 3 : i64}]
func.func @one_row(%x: tensor<8x4xf32, #x>, %w: tensor<12x2xf32, #w>) -> tensor<8x2xf32, #y> {
  %y = ccl.matmul %x, %w {stationary = "c", panels = 3 : i64} : (tensor<8x4xf32, #x>, tensor<12x2xf32, #w>) -> tensor<8x2xf32, #y>
  return %y : tensor<8x2xf32, #y>
}
