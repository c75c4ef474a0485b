// RUN: %optimus-opt %s --mlir-print-local-scope | FileCheck %s
// RUN: %optimus-opt %s --mlir-print-op-generic | %optimus-opt --mlir-print-local-scope | FileCheck %s

// The encoding, whose sharding is printed without its name, then one case for each operation, in alphabetical order.

optimus.mesh @mesh <["row" = 2, "col" = 3]>

#sharded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {"col"}]>>
#padded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {}]>>
#partial = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 5, 2], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
#down = #ccl.local<[12, 5, 2], #optimus.sharding<@mesh, [{"col"}, {"row"}, {}]>>
#partial_y = #ccl.local<[8, 5, 2], #optimus.sharding<@mesh, [{"row"}, {}, {}], unreduced = {"col"}>>
#y = #ccl.local<[8, 5, 2], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>

#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#whole_h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

// CHECK-LABEL: func.func private @local
// CHECK-SAME: tensor<4x2xf32, #ccl.local<[4, 5], <@mesh, [{}, {"col"}]>>>
// CHECK-SAME: tensor<f32, #ccl.local<[], <@mesh, [], unreduced = {"row"}>>>
func.func private @local(tensor<4x2xf32, #sharded>, tensor<f32, #sum>)

// CHECK-LABEL: func.func @all_gather
// CHECK: ccl.all_gather %{{.*}} {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #ccl.local<{{.*}}>>) -> tensor<4x6xf32, #ccl.local<[4, 5], <@mesh, [{}, {}]>>>
func.func @all_gather(%x: tensor<4x2xf32, #sharded>) -> tensor<4x6xf32, #padded> {
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32, #padded>
  return %0 : tensor<4x6xf32, #padded>
}

// CHECK-LABEL: func.func @all_reduce
// CHECK: ccl.all_reduce %{{.*}} {axis = "col"} : (tensor<4x6xf32, #ccl.local<{{.*}}>>) -> tensor<4x6xf32,
func.func @all_reduce(%x: tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #padded> {
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #padded>
  return %0 : tensor<4x6xf32, #padded>
}

// CHECK-LABEL: func.func @head_loss
// CHECK: %{{.*}}, %{{.*}} = ccl.head_loss %{{.*}}, %{{.*}}, %{{.*}} {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32,
func.func @head_loss(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>) {
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return %0, %1 : tensor<f32, #sum>, tensor<f32, #sum>
}

// CHECK-LABEL: func.func @head_loss_grad
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = ccl.head_loss_grad %{{.*}}, %{{.*}}, %{{.*}} {axis = "col", chunk = 512 : i64} : (tensor<8x12xf32,
func.func @head_loss_grad(%h: tensor<8x12xf32, #whole_h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) -> (tensor<8x12xf32, #whole_h>, tensor<4x12xf32, #dtable>) {
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x12xf32, #whole_h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x12xf32, #whole_h>, tensor<4x12xf32, #dtable>)
  return %2, %3 : tensor<8x12xf32, #whole_h>, tensor<4x12xf32, #dtable>
}

// The three forms: what stays, forward and in the two gradients; then a result
// that stays behind as partial sums.
// CHECK-LABEL: func.func @matmul
// CHECK: ccl.matmul %{{.*}}, %{{.*}} {panels = 6 : i64, stationary = "c"} :
// CHECK-NEXT: ccl.matmul %{{.*}}, %{{.*}} {panels = 6 : i64, stationary = "a"} :
// CHECK-NEXT: ccl.matmul %{{.*}}, %{{.*}} {contracting = 2 : i64, panels = 6 : i64, stationary = "c", transpose_b} :
// CHECK-NEXT: ccl.matmul %{{.*}}, %{{.*}} {panels = 6 : i64, stationary = "b", transpose_a} :
// CHECK-NEXT: ccl.matmul %{{.*}}, %{{.*}} {panels = 2 : i64, stationary = "a"} : {{.*}} -> tensor<4x6x2xf32, #ccl.local<[8, 5, 2], <@mesh, [{"row"}, {}, {}], unreduced = {"col"}>>>
func.func @matmul(%x: tensor<4x4xf32, #x>, %w: tensor<6x2x2xf32, #w>, %down: tensor<4x3x2xf32, #down>) -> (tensor<4x4xf32, #x>, tensor<6x2x2xf32, #w>) {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2x2xf32, #w>) -> tensor<4x2x2xf32, #y>
  %1 = ccl.matmul %x, %down {stationary = "a", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<4x3x2xf32, #down>) -> tensor<4x2x2xf32, #y>
  %2 = ccl.matmul %1, %down {stationary = "c", panels = 6 : i64, contracting = 2 : i64, transpose_b} : (tensor<4x2x2xf32, #y>, tensor<4x3x2xf32, #down>) -> tensor<4x4xf32, #x>
  %3 = ccl.matmul %x, %0 {stationary = "b", panels = 6 : i64, transpose_a} : (tensor<4x4xf32, #x>, tensor<4x2x2xf32, #y>) -> tensor<6x2x2xf32, #w>
  %4 = ccl.matmul %x, %down {stationary = "a", panels = 2 : i64} : (tensor<4x4xf32, #x>, tensor<4x3x2xf32, #down>) -> tensor<4x6x2xf32, #partial_y>
  return %2, %3 : tensor<4x4xf32, #x>, tensor<6x2x2xf32, #w>
}

// CHECK-LABEL: func.func @reduce_scatter
// CHECK: ccl.reduce_scatter %{{.*}} {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #ccl.local<{{.*}}>>) -> tensor<4x2xf32,
func.func @reduce_scatter(%x: tensor<4x6xf32, #partial>) -> tensor<4x2xf32, #sharded> {
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<4x2xf32, #sharded>
  return %0 : tensor<4x2xf32, #sharded>
}

// CHECK-LABEL: func.func @slice
// CHECK: ccl.slice %{{.*}} {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #ccl.local<{{.*}}>>) -> tensor<4x2xf32,
// CHECK-NEXT: ccl.slice %{{.*}} {axis = "row", dim = 0 : i64} : (tensor<16xi32>) -> tensor<8xi32,
func.func @slice(%x: tensor<4x6xf32, #padded>, %tokens: tensor<16xi32>) -> (tensor<4x2xf32, #sharded>, tensor<8xi32, #tokens>) {
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #padded>) -> tensor<4x2xf32, #sharded>
  %1 = ccl.slice %tokens {axis = "row", dim = 0 : i64} : (tensor<16xi32>) -> tensor<8xi32, #tokens>
  return %0, %1 : tensor<4x2xf32, #sharded>, tensor<8xi32, #tokens>
}
