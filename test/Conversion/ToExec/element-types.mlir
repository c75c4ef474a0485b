// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=target=cuda | FileCheck %s --check-prefix=CUDA

// Narrow tensors in narrow buffers, and what is kept in f32 beside them.

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#wt = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#partial = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// CHECK-LABEL: func.func @cast(
// CHECK-SAME: %[[X:.*]]: memref<32xf32>, %[[Y:.*]]: memref<32xbf16>, %[[Z:.*]]: memref<32xf32>)
// CHECK-NEXT: exec.launch @cast_f32_to_bf16_32 extent 1 grain {{.*}}(read %[[X]] : memref<32xf32>, write %[[Y]] : memref<32xbf16>)
// CHECK-NEXT: exec.launch @cast_bf16_to_f32_32 {{.*}}(read %[[Y]] : memref<32xbf16>, write %[[Z]] : memref<32xf32>)
func.func @cast(%x: tensor<4x8xf32>) -> (tensor<4x8xbf16>, tensor<4x8xf32>) {
  %0 = optimus.cast %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %1 = optimus.cast %0 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xbf16>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @collectives(
// CHECK: exec.collective_start reduce_scatter sum over "col", {{.*}} : memref<48xbf16>, memref<24xbf16>
// CHECK: exec.collective_start all_gather sum over "col", {{.*}} : memref<24xbf16>, memref<48xbf16>
func.func @collectives(%x: tensor<4x12xbf16, #partial>) -> tensor<4x12xbf16, #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>> {
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x12xbf16, #partial>) -> tensor<4x6xbf16, #x>
  %1 = ccl.all_gather %0 {axis = "col", dim = 1 : i64} : (tensor<4x6xbf16, #x>) -> tensor<4x12xbf16, #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>>
  return %1 : tensor<4x12xbf16, #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>>
}

// A narrow result that stays is f32 up to its last panel, which rounds it.
// CHECK-LABEL: func.func @stationary_c(
// CHECK-SAME: memref<24xbf16>, %{{.*}}: memref<24xbf16>, %[[Y:.*]]: memref<16xbf16>)
// CHECK: exec.alloc "workspace" {name = "received panel", {{.*}}} : memref<12xbf16>
// CHECK: exec.collective_start broadcast {{.*}} : memref<21xbf16>, memref<12xbf16>
// CHECK: %[[SUM:.*]] = exec.alloc "workspace" {name = "f32 sum", values = ["matmul:0"]} : memref<16xf32>
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[SUM]] {id
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[SUM]] {accumulate,
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[SUM]] {accumulate,
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[Y]] extra(%[[SUM]] : memref<16xf32>) {epilogue = #exec<epilogue add>, {{.*}}ld_extra = 4 : i64, {{.*}} : memref<12xbf16>, memref<12xbf16>, memref<16xbf16>
// CHECK-NOT: exec.gemm
// CHECK: return
func.func @stationary_c(%x: tensor<4x6xbf16, #x>, %w: tensor<6x4xbf16, #w>) -> tensor<4x4xbf16, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 4 : i64} : (tensor<4x6xbf16, #x>, tensor<6x4xbf16, #w>) -> tensor<4x4xbf16, #y>
  return %0 : tensor<4x4xbf16, #y>
}

// An f32 result needs no sum beside it.
// CHECK-LABEL: func.func @stationary_c_f32(
// CHECK-NOT: f32 sum
// CHECK-COUNT-4: exec.gemm {{.*}} : memref<12xbf16>, memref<12xbf16>, memref<16xf32>
// CHECK: return
func.func @stationary_c_f32(%x: tensor<4x6xbf16, #x>, %w: tensor<6x4xbf16, #w>) -> tensor<4x4xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 4 : i64} : (tensor<4x6xbf16, #x>, tensor<6x4xbf16, #w>) -> tensor<4x4xf32, #y>
  return %0 : tensor<4x4xf32, #y>
}

// One that moves is rounded on each rank, so that half the bytes move.
// CHECK-LABEL: func.func @moved_result(
// CHECK: exec.alloc "workspace" {name = "partial panel", {{.*}}} : memref<{{.*}}xbf16>
// CHECK-NOT: f32 sum
// CHECK: exec.collective_start reduce sum over "col", {{.*}}xbf16>, memref<{{.*}}xbf16>
func.func @moved_result(%x: tensor<4x6xbf16, #x>, %w: tensor<4x6xbf16, #wt>) -> tensor<4x4xbf16, #y> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xbf16, #x>, tensor<4x6xbf16, #wt>) -> tensor<4x4xbf16, #y>
  return %0 : tensor<4x4xbf16, #y>
}

// Logits and what is made of them are f32; dlogits are rounded before they are
// multiplied. On GPUs one narrow buffer has both, in rows of whole lines.
// CHECK-LABEL: func.func @head(
// CHECK: exec.alloc "workspace" {name = "logits"} : memref<24xf32>
// CHECK: %[[NARROW:.*]] = exec.alloc "workspace" {name = "narrow dlogits"} : memref<24xbf16>
// CHECK: exec.gemm {{.*}} : memref<32xbf16>, memref<48xbf16>, memref<24xf32>
// CHECK: exec.launch @cast_f32_to_bf16_24 {{.*}}, write %[[NARROW]] : memref<24xbf16>)
// CHECK: exec.gemm %[[NARROW]], {{.*}} : memref<24xbf16>, memref<32xbf16>, memref<48xf32>
// CHECK: exec.gemm %[[NARROW]], {{.*}} : memref<24xbf16>, memref<48xbf16>, memref<32xbf16>
// CUDA-LABEL: func.func @head(
// CUDA: %[[LOGITS:.*]] = exec.alloc "workspace" {{.*}}name = "logits"} : memref<512xbf16>
// CUDA-NOT: dlogits
// CUDA: exec.gemm {{.*}} %[[LOGITS]] {{{.*}}ldc = 64{{.*}} : memref<64xbf16>, memref<48xbf16>, memref<512xbf16>
// CUDA: exec.launch @logit_sums_grad_logits_bf16_8x64(update %[[LOGITS]] : memref<512xbf16>,
// CUDA: exec.gemm %[[LOGITS]], {{.*}}lda = 64{{.*}} : memref<512xbf16>, memref<64xbf16>, memref<48xf32>
// CUDA: exec.gemm %[[LOGITS]], {{.*}}lda = 64{{.*}} : memref<512xbf16>, memref<48xbf16>, memref<64xbf16>
func.func @head(%h: tensor<8x8xbf16>, %table: tensor<6x8xbf16>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x8xbf16>, tensor<6x8xf32>) {
  %0:4 = optimus.head_loss_grad %h, %table, %targets {chunk = 4 : i64} : (tensor<8x8xbf16>, tensor<6x8xbf16>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x8xbf16>, tensor<6x8xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<f32>, tensor<f32>, tensor<8x8xbf16>, tensor<6x8xf32>
}

// A residual that is not where the product goes is brought there as it is.
// CHECK-LABEL: func.func @scaled(
// CHECK-SAME: %[[X:.*]]: memref<32xbf16>, %[[W:.*]]: memref<24xbf16>, %[[R:.*]]: memref<48xf32>, %[[S:.*]]: memref<48xbf16>, %[[Y:.*]]: memref<48xbf16>)
// CHECK-NEXT: exec.launch @cast_f32_to_bf16_48 {{.*}}(read %[[R]] : memref<48xf32>, write %[[Y]] : memref<48xbf16>)
// CHECK-NEXT: exec.gemm %[[X]], %[[W]], %[[Y]] extra(%[[S]] : memref<48xbf16>) {accumulate, epilogue = #exec<epilogue mul>
func.func @scaled(%x: tensor<8x4xbf16>, %w: tensor<4x6xbf16>, %r: tensor<8x6xf32>, %s: tensor<8x6xbf16>) -> tensor<8x6xbf16> {
  %0 = optimus.matmul %x, %w residual(%r) scale(%s) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>) -> tensor<8x6xbf16>
  return %0 : tensor<8x6xbf16>
}
