// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=target=cuda --optimus-build-kernels=target=cuda --optimus-verify-exec | FileCheck %s --check-prefix=CUDA

#h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>
#table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#bias = #ccl.local<[11], #optimus.sharding<@mesh, [{"col"}]>>
#logits = #ccl.local<[16, 11], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// One product of all tokens; a vocabulary without padding needs nothing else.
// CHECK-LABEL: func.func @serial(
// CHECK-SAME: %[[H:.*]]: memref<80xf32>, %[[TABLE:.*]]: memref<48xf32> {{{.*}}}, %[[LOGITS:.*]]: memref<60xf32>)
// CHECK-NOT: exec.alloc
// CHECK: exec.gemm %[[H]], %[[TABLE]], %[[LOGITS]] {{{.*}}k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 6 : i64, m = 10 : i64, n = 6 : i64, trans_b}
// CHECK-NEXT: return
// CUDA-LABEL: func.func @serial(
// CUDA: exec.gemm
// CUDA-NEXT: return
func.func @serial(%h: tensor<2x5x8xf32>, %table: tensor<6x8xf32> {optimus.param = "wte"}) -> tensor<2x5x6xf32> {
  %0 = optimus.head %h, %table : (tensor<2x5x8xf32>, tensor<6x8xf32>) -> tensor<2x5x6xf32>
  return %0 : tensor<2x5x6xf32>
}

// The vocabulary of 11 is sharded over "col" into two parts of 6: the last
// column of the second becomes −∞. Narrow factors make f32 logits.
// CHECK-LABEL: func.func @sharded(
// CHECK-SAME: %[[H:.*]]: memref<64xbf16>, %[[TABLE:.*]]: memref<48xbf16>, %[[BIAS:.*]]: memref<6xf32>, %[[LOGITS:.*]]: memref<48xf32>)
// CHECK: exec.gemm %[[H]], %[[TABLE]], %[[LOGITS]] bias(%[[BIAS]] : memref<6xf32>)
// CHECK: %[[REAL:.*]] = exec.real_extent 6 of 11 over ["col"]
// CHECK: exec.launch @pad_logits_8x6 {{.*}}(update %[[LOGITS]] : memref<48xf32>) scalars(%[[REAL]] : i64)
// CUDA-LABEL: func.func @sharded(
// CUDA: exec.gemm {{.*}} : memref<64xbf16>, memref<48xbf16>, memref<48xf32>
// CUDA: exec.launch @pad_logits_8x6 {{.*}}(update
func.func @sharded(%h: tensor<8x8xbf16, #h>, %table: tensor<6x8xbf16, #table>, %bias: tensor<6xf32, #bias>) -> tensor<8x6xf32, #logits> {
  %0 = optimus.head %h, %table bias(%bias) : (tensor<8x8xbf16, #h>, tensor<6x8xbf16, #table>, tensor<6xf32, #bias>) -> tensor<8x6xf32, #logits>
  return %0 : tensor<8x6xf32, #logits>
}
