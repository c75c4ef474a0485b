// RUN: optimus-opt %s --optimus-to-exec=target=cuda --verify-roundtrip | FileCheck %s

// NCCL moves stretches: columns are packed before a collective, and unpacked
// behind it. A panel is packed before the one before it is multiplied, and
// unpacked after the next one: copies keep their place among products.

#x = #ccl.local<[8, 16], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#wt = #ccl.local<[16, 16], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#yt = #ccl.local<[8, 16], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 4]>

// CHECK-LABEL: func.func @gathered(
// CHECK-SAME: %[[X:.*]]: memref<16xf32>, %[[W:.*]]: memref<16xf32>, %[[Y:.*]]: memref<8xf32>)
// Both factors of the second panel.
// CHECK: %[[NEXT_X:.*]] = exec.alloc "workspace" {{.*}}name = "packed source"{{.*}} : memref<8xf32>
// CHECK: exec.copy %[[NEXT_X]] from
// CHECK: %[[NEXT_W:.*]] = exec.alloc "workspace" {{.*}}name = "packed part"{{.*}} : memref<8xf32>
// CHECK: exec.copy %[[NEXT_W]] from
// CHECK: exec.collective_start all_gather sum over "col"
// CHECK: exec.collective_start all_gather sum over "row"
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[Y]] {{{.*}}k = 8
// CHECK: exec.collective_start all_gather sum over "col", %[[NEXT_X]] to
// CHECK: exec.collective_start all_gather sum over "row", %[[NEXT_W]] to
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[Y]] {accumulate
// CHECK-NOT: exec.gemm
func.func @gathered(%x: tensor<4x4xf32, #x>, %w: tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<4x4xf32, #x>, tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y>
  return %0 : tensor<4x2xf32, #y>
}

// CHECK-LABEL: func.func @scattered(
// CHECK: exec.gemm
// CHECK-NOT: exec.collective_start reduce_scatter
// CHECK: exec.gemm
// CHECK: exec.collective_start reduce_scatter sum over "col"
// CHECK: exec.copy
// CHECK: exec.collective_start reduce_scatter sum over "col"
// CHECK: exec.copy
// CHECK-NOT: exec.gemm
func.func @scattered(%x: tensor<4x4xf32, #yt>, %w: tensor<4x8xf32, #wt>) -> tensor<4x4xf32, #yt> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 2 : i64} : (tensor<4x4xf32, #yt>, tensor<4x8xf32, #wt>) -> tensor<4x4xf32, #yt>
  return %0 : tensor<4x4xf32, #yt>
}
