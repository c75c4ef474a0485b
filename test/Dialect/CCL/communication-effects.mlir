// RUN: %optimus-opt %s --canonicalize --cse --loop-invariant-code-motion --canonicalize --cse | FileCheck %s

// Collectives are messages that all ranks of an axis must agree on. MLIR's own
// passes neither drop one whose result is unused, nor merge two equal ones, nor
// move one out of a loop; local operations they do.

optimus.mesh @mesh <["row" = 2, "col" = 2]>

#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"row"}>>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#h = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[6, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#dtable = #ccl.local<[6, 8], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#tokens = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

// CHECK-LABEL: func.func @unused
// CHECK-NEXT: ccl.all_gather
// CHECK-NEXT: ccl.all_reduce
// CHECK-NEXT: ccl.head_loss
// CHECK-NEXT: ccl.head_loss_grad
// CHECK-NEXT: ccl.matmul
// CHECK-NEXT: ccl.reduce_scatter
// CHECK-NEXT: return
func.func @unused(%sharded: tensor<2x6xf32, #sharded>, %partial: tensor<4x6xf32, #partial>, %x: tensor<2x4xf32, #x>, %w: tensor<4x3xf32, #w>, %table: tensor<3x8xf32, #table>, %targets: tensor<2xi32, #tokens>) {
  %0 = ccl.all_gather %sharded {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #sharded>) -> tensor<4x6xf32>
  %1 = ccl.all_reduce %partial {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  %3, %4 = ccl.head_loss %x, %table, %targets {axis = "col", chunk = 2 : i64} : (tensor<2x4xf32, #h>, tensor<3x8xf32, #table>, tensor<2xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  %5, %6, %7, %8 = ccl.head_loss_grad %x, %table, %targets {axis = "col", chunk = 2 : i64} : (tensor<2x4xf32, #h>, tensor<3x8xf32, #table>, tensor<2xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<2x4xf32, #h>, tensor<3x8xf32, #dtable>)
  %9 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<2x4xf32, #x>, tensor<4x3xf32, #w>) -> tensor<2x3xf32, #y>
  %10 = ccl.reduce_scatter %partial {axis = "row", dim = 0 : i64} : (tensor<4x6xf32, #partial>) -> tensor<2x6xf32, #sharded>
  %11 = ccl.slice %1 {axis = "col", dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32, #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"col"}, {}]>>>
  return
}

// CHECK-LABEL: func.func @equal
// CHECK-COUNT-2: ccl.all_reduce
// CHECK-COUNT-2: ccl.matmul
// CHECK-COUNT-1: ccl.slice
// CHECK-NOT: ccl.slice
// CHECK: return
func.func @equal(%partial: tensor<4x6xf32, #partial>, %x: tensor<2x4xf32, #x>, %w: tensor<4x3xf32, #w>, %whole: tensor<4x6xf32>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x3xf32, #y>, tensor<2x3xf32, #y>, tensor<2x6xf32, #sharded>, tensor<2x6xf32, #sharded>) {
  %0 = ccl.all_reduce %partial {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  %1 = ccl.all_reduce %partial {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  %2 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<2x4xf32, #x>, tensor<4x3xf32, #w>) -> tensor<2x3xf32, #y>
  %3 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<2x4xf32, #x>, tensor<4x3xf32, #w>) -> tensor<2x3xf32, #y>
  %4 = ccl.slice %whole {axis = "row", dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32, #sharded>
  %5 = ccl.slice %whole {axis = "row", dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32, #sharded>
  return %0, %1, %2, %3, %4, %5 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x3xf32, #y>, tensor<2x3xf32, #y>, tensor<2x6xf32, #sharded>, tensor<2x6xf32, #sharded>
}

// CHECK-LABEL: func.func @loop
// CHECK: optimus.gelu
// CHECK: scf.for
// CHECK-NEXT: ccl.all_reduce
func.func @loop(%partial: tensor<4x6xf32, #partial>, %whole: tensor<4x6xf32>, %n: index) -> tensor<4x6xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %result = scf.for %i = %zero to %n step %one iter_args(%acc = %whole) -> (tensor<4x6xf32>) {
    %0 = optimus.gelu %whole : tensor<4x6xf32>
    %1 = ccl.all_reduce %partial {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
    %2 = optimus.add %0, %1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %3 = optimus.add %acc, %2 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    scf.yield %3 : tensor<4x6xf32>
  }
  return %result : tensor<4x6xf32>
}
