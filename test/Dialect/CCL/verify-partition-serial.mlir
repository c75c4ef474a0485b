// RUN: not optimus-opt %s --split-input-file --optimus-verify-partition=serial=%S/Inputs/serial.mlir -o %t 2>&1 | FileCheck %s
// RUN: not optimus-opt %s --split-input-file --optimus-verify-partition=serial=%S/Inputs/none.mlir -o %t 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: could not open input file {{.*}}none.mlir

// The same, with the sum in another order and the bias folded in: nothing is said.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#u = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#w = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#b = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}]>>
// CHECK-NOT: same.mlir
func.func @f(%x: tensor<2x4xf32, #x> {optimus.param = "x"}, %w: tensor<4x8xf32, #w>, %b: tensor<4xf32, #b>, %r: tensor<2x4xf32, #x>) -> tensor<2x4xf32, #x> {
  %0 = optimus.matmul %x, %w : (tensor<2x4xf32, #x>, tensor<4x8xf32, #w>) -> tensor<2x8xf32, #u> loc("same.mlir":1:1)
  %1 = ccl.reduce_scatter %0 {axis = "col", dim = 1 : i64} : (tensor<2x8xf32, #u>) -> tensor<2x4xf32, #x> loc("same.mlir":2:1)
  %2 = optimus.add %1, %b : (tensor<2x4xf32, #x>, tensor<4xf32, #b>) -> tensor<2x4xf32, #x> loc("same.mlir":3:1)
  %3 = optimus.gelu %2 : tensor<2x4xf32, #x> loc("same.mlir":4:1)
  %4 = optimus.add %r, %3 : (tensor<2x4xf32, #x>, tensor<2x4xf32, #x>) -> tensor<2x4xf32, #x> loc("same.mlir":5:1)
  return %4 : tensor<2x4xf32, #x> loc("same.mlir":6:1)
}

// -----

// Another computation.
// CHECK: other.mlir:4:1: error: V8: expected the optimus.gelu of h.0.mlp.act (model.py:9) of the serial program, {{.*}}; found optimus.gelu {exact}
// CHECK: model.py:9:0: note: h.0.mlp.act: in the serial program
// CHECK: note: so result 0 of @f is not shown to be the serial program's
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = optimus.matmul %x, %w bias(%b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("other.mlir":2:1)
  %1 = optimus.gelu %0 {exact} : tensor<4x8xf32> loc("other.mlir":4:1)
  %2 = optimus.add %1, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("other.mlir":5:1)
  return %2 : tensor<4x8xf32> loc("other.mlir":6:1)
}

// -----

// From another value, which is one of the serial program's, too.
// CHECK: read.mlir:2:1: error: V8: expected it to compute from argument 0 "parameter:x" as the serial program does, found argument 3
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = optimus.matmul %r, %w bias(%b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("read.mlir":2:1)
  %1 = optimus.gelu %0 : tensor<4x8xf32> loc("read.mlir":4:1)
  %2 = optimus.add %1, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("read.mlir":5:1)
  return %2 : tensor<4x8xf32> loc("read.mlir":6:1)
}

// -----

// A term is forgotten, and one is added twice.
// CHECK: lacks.mlir:2:1: error: V8: expected argument 2 among the terms of a sum as in the serial program; it is missing
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("lacks.mlir":2:1)
  %1 = optimus.gelu %0 : tensor<4x8xf32> loc("lacks.mlir":4:1)
  %2 = optimus.add %1, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("lacks.mlir":5:1)
  return %2 : tensor<4x8xf32> loc("lacks.mlir":6:1)
}

// -----

// CHECK: adds.mlir:3:1: error: V8: expected no argument 3 among the terms of a sum, as in the serial program
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = optimus.matmul %x, %w bias(%b) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> loc("adds.mlir":1:1)
  %1 = optimus.gelu %0 : tensor<4x8xf32> loc("adds.mlir":2:1)
  %2 = optimus.add %1, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("adds.mlir":4:1)
  %3 = optimus.add %2, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc("adds.mlir":3:1)
  return %3 : tensor<4x8xf32> loc("adds.mlir":6:1)
}

// -----

// CHECK: error: V7: expected a function @f as in the serial program
func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// CHECK: error: {{.*}}V7: expected a function of this name in the serial program, found none
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// CHECK: error: {{.*}}V7: expected 4 arguments as in the serial program, found 1
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// CHECK: error: {{.*}}V7: expected argument 0 ('parameter:x') as in the serial program, found argument 0 ('parameter:y')
func.func @f(%x: tensor<4x8xf32> {optimus.param = "y"}, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// CHECK: error: {{.*}}V7: expected argument 1 to be 'tensor<8x8xf32>' as in the serial program, found a shard of 'tensor<8x9xf32>'
func.func @f(%x: tensor<4x8xf32> {optimus.param = "x"}, %w: tensor<8x9xf32>, %b: tensor<8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
