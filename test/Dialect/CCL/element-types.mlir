// RUN: optimus-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// Narrow tensors move and are added up as f32 ones do; then what is refused.

optimus.mesh @mesh <["row" = 2, "col" = 3]>

#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// CHECK-LABEL: func.func @collectives
// CHECK: ccl.reduce_scatter %{{.*}} : (tensor<4x6xbf16, {{.*}}) -> tensor<4x2xbf16,
// CHECK: ccl.all_gather %{{.*}} : (tensor<4x2xbf16, {{.*}}) -> tensor<4x6xbf16>
// CHECK: ccl.slice %{{.*}} : (tensor<4x6xbf16>) -> tensor<4x2xbf16,
// CHECK: ccl.all_reduce %{{.*}} : (tensor<4x6xbf16, {{.*}}) -> tensor<4x6xbf16>
func.func @collectives(%x: tensor<4x6xbf16, #partial>) -> (tensor<4x2xbf16, #sharded>, tensor<4x6xbf16>) {
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xbf16, #partial>) -> tensor<4x2xbf16, #sharded>
  %1 = ccl.all_gather %0 {axis = "col", dim = 1 : i64} : (tensor<4x2xbf16, #sharded>) -> tensor<4x6xbf16>
  %2 = ccl.slice %1 {axis = "col", dim = 1 : i64} : (tensor<4x6xbf16>) -> tensor<4x2xbf16, #sharded>
  %3 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xbf16, #partial>) -> tensor<4x6xbf16>
  return %2, %3 : tensor<4x2xbf16, #sharded>, tensor<4x6xbf16>
}

// CHECK-LABEL: func.func @products
// CHECK: ccl.matmul %{{.*}} : (tensor<4x4xbf16, {{.*}}>, tensor<6x2xbf16, {{.*}}>) -> tensor<4x2xbf16,
// CHECK: ccl.matmul %{{.*}} : (tensor<4x4xbf16, {{.*}}>, tensor<6x2xbf16, {{.*}}>) -> tensor<4x2xf32,
func.func @products(%x: tensor<4x4xbf16, #x>, %w: tensor<6x2xbf16, #w>) -> (tensor<4x2xbf16, #y>, tensor<4x2xf32, #y>) {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xbf16, #x>, tensor<6x2xbf16, #w>) -> tensor<4x2xbf16, #y>
  %1 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xbf16, #x>, tensor<6x2xbf16, #w>) -> tensor<4x2xf32, #y>
  return %0, %1 : tensor<4x2xbf16, #y>, tensor<4x2xf32, #y>
}

// -----

optimus.mesh @mesh <["col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @all_reduce_types(%x: tensor<4x6xbf16, #partial>) {
  // expected-error @below {{failed to verify that all of {input, result} have same element type}}
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xbf16, #partial>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c7(%x: tensor<4x4xbf16, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C7: expected a and b of one element type, and a result of it or f32, found 'bf16', 'f32' and 'bf16'}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xbf16, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xbf16, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c7_result(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C7: expected a and b of one element type, and a result of it or f32, found 'f32', 'f32' and 'bf16'}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xbf16, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c9(%h: tensor<8x4xbf16, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C9: expected h and a table of one element type, found 'bf16' and 'f32'}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 4 : i64} : (tensor<8x4xbf16, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}
