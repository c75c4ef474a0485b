// RUN: optimus-opt %s --optimus-to-exec=target=cuda --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=target=cuda --optimus-build-kernels=target=cuda -o /dev/null

// What cuBLASLt does not do with a product, launches do.

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// It multiplies by no matrix.
// CHECK-LABEL: func.func @scaled(
// CHECK-SAME: %[[X:.*]]: memref<32xf32>, %[[W:.*]]: memref<48xf32>, %[[S:.*]]: memref<24xf32>, %[[Y:.*]]: memref<24xf32>)
// CHECK-NEXT: exec.gemm %[[X]], %[[W]], %[[Y]] {id
// CHECK-NEXT: exec.launch @mul_24(read %[[Y]] : memref<24xf32>, read %[[S]] : memref<24xf32>, write %[[Y]] : memref<24xf32>)
// CHECK-NEXT: return
func.func @scaled(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %s: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = optimus.matmul %x, %w scale(%s) : (tensor<4x8xf32>, tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// It adds what has the type of the result.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME: %{{.*}}: memref<32xbf16>, %{{.*}}: memref<48xbf16>, %[[B:.*]]: memref<6xf32>, %[[R:.*]]: memref<24xbf16>, %[[Y:.*]]: memref<24xbf16>)
// CHECK-NEXT: %[[BIAS:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "narrow bias"} : memref<6xbf16>
// CHECK-NEXT: exec.launch @cast_f32_to_bf16_6(read %[[B]] : memref<6xf32>, write %[[BIAS]] : memref<6xbf16>)
// CHECK-NEXT: exec.gemm %{{.*}}, %{{.*}}, %[[Y]] bias(%[[BIAS]] : memref<6xbf16>) extra(%[[R]] : memref<24xbf16>) {epilogue = #exec<epilogue add>
// CHECK-NEXT: return
func.func @narrow(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %b: tensor<6xf32>, %r: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
  %0 = optimus.matmul %x, %w bias(%b) residual(%r) : (tensor<4x8xbf16>, tensor<8x6xbf16>, tensor<6xf32>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  return %0 : tensor<4x6xbf16>
}

// A sum of panels in f32 is rounded once, by a launch.
// CHECK-LABEL: func.func @stationary_c(
// CHECK-SAME: memref<24xbf16>, %{{.*}}: memref<24xbf16>, %[[Y:.*]]: memref<16xbf16>)
// CHECK: %[[SUM:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "f32 sum", values = ["matmul:0"]} : memref<16xf32>
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[SUM]] {id
// CHECK-COUNT-3: exec.gemm %{{.*}}, %{{.*}}, %[[SUM]] {accumulate,
// CHECK-NEXT: exec.launch @cast_f32_to_bf16_16(read %[[SUM]] : memref<16xf32>, write %[[Y]] : memref<16xbf16>)
// CHECK: return
func.func @stationary_c(%x: tensor<4x6xbf16, #x>, %w: tensor<6x4xbf16, #w>) -> tensor<4x4xbf16, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 4 : i64} : (tensor<4x6xbf16, #x>, tensor<6x4xbf16, #w>) -> tensor<4x4xbf16, #y>
  return %0 : tensor<4x4xbf16, #y>
}

// Attention is a launch, and its gradient two. Parts of one tensor begin where a
// token's part does, and end with the last token's.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[QKV:[^:]*]]: memref<384xf32>, %[[DOUT:[^:]*]]: memref<128xf32>, %[[DQKV:[^:]*]]: memref<384xf32>
// CHECK-DAG: %[[Q:.*]] = exec.slice %[[QKV]][0] : memref<384xf32> to memref<352xf32>
// CHECK-DAG: %[[K:.*]] = exec.slice %[[QKV]][16] : memref<384xf32> to memref<352xf32>
// CHECK-DAG: %[[V:.*]] = exec.slice %[[QKV]][32] : memref<384xf32> to memref<352xf32>
// CHECK: exec.launch @attention_causal_{{[0-9x_]*}}(read %[[Q]] : memref<352xf32>, read %[[K]] : memref<352xf32>, read %[[V]] : memref<352xf32>, write %[[OUT:.*]] : memref<128xf32>, write %[[LSE:.*]] : memref<16xf32>)
// CHECK: %[[DELTA:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "attention delta"} : memref<16xf32>
// CHECK: exec.launch @attention_query_grad_causal_{{[0-9x_]*}}(read %[[DOUT]] : memref<128xf32>, {{.*}}read %[[OUT]] : memref<128xf32>, read %[[LSE]] : memref<16xf32>, write %{{.*}} : memref<352xf32>, write %[[DELTA]] : memref<16xf32>)
// CHECK-DAG: %[[DK:.*]] = exec.slice %[[DQKV]][16] :
// CHECK-DAG: %[[DV:.*]] = exec.slice %[[DQKV]][32] :
// CHECK: exec.launch @attention_key_grad_causal_{{[0-9x_]*}}(read %[[DOUT]] : memref<128xf32>, {{.*}}read %[[DELTA]] : memref<16xf32>, write %[[DK]] : memref<352xf32>, write %[[DV]] : memref<352xf32>)
func.func @attention(%qkv: tensor<2x4x3x2x8xf32>, %dout: tensor<2x4x2x8xf32>) -> tensor<2x4x3x2x8xf32> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xf32>) -> (tensor<2x4x2x8xf32>, tensor<2x2x4xf32>)
  %d = optimus.attention_grad %dout, %o, %l, %qkv {causal} : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4xf32>, tensor<2x4x3x2x8xf32>) -> tensor<2x4x3x2x8xf32>
  return %d : tensor<2x4x3x2x8xf32>
}

// The gradient of an embedding goes by the table's rows.
// CHECK-LABEL: func.func @embedding_grad(
// CHECK: exec.launch @embedding_grad_by_rows_16_256x12(read %{{.*}} : memref<192xf32>, read %{{.*}} : memref<16xi32>, write %{{.*}} : memref<3072xf32>)
func.func @embedding_grad(%dy: tensor<2x8x12xf32>, %i: tensor<2x8xi32>) -> tensor<256x12xf32> {
  %0 = optimus.embedding_grad %dy, %i : (tensor<2x8x12xf32>, tensor<2x8xi32>) -> tensor<256x12xf32>
  return %0 : tensor<256x12xf32>
}

#h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#dtable = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#bias = #ccl.local<[11], #optimus.sharding<@mesh, [{"col"}]>>
#dbias = #ccl.local<[11], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

// A rank's 6 logits of a token are narrow, in rows of whole lines, and stay until
// their gradients replace them. A bias is rounded once for all chunks; its
// gradient has no padding.
// CHECK-LABEL: func.func @sharded_head(
// CHECK: %[[LOGITS:.*]] = exec.alloc "workspace" {{.*}}name = "logits"{{.*}} : memref<512xbf16>
// CHECK: exec.launch @cast_f32_to_bf16_6({{.*}}, write %[[NARROW:[^ ]*]] : memref<6xbf16>)
// CHECK-NOT: dlogits
// CHECK: exec.gemm {{.*}}, %[[LOGITS]] bias(%[[NARROW]] : memref<6xbf16>) {{{.*}}ldc = 64
// CHECK: exec.launch @row_max_logits_bf16_8x64(read %[[LOGITS]] : memref<512xbf16>, write %[[MAX:[^ ]*]] : memref<8xf32>)
// CHECK: exec.collective_start all_reduce max over "col", %[[MAX]] to %[[MAX]]
// CHECK: exec.launch @partial_logit_sums_logits_bf16_8x64(read %[[LOGITS]] : memref<512xbf16>, read %[[MAX]] : memref<8xf32>, read {{.*}}, write %[[SUMS:[^ ]*]] : memref<16xf32>)
// CHECK: exec.collective_start all_reduce sum over "col", %[[SUMS]] to %[[SUMS]]
// CHECK: exec.launch @partial_logits_grad_logits_bf16_8x64(update %[[LOGITS]] : memref<512xbf16>, read %[[MAX]] : memref<8xf32>, read %[[SUMS]] : memref<16xf32>,
// CHECK: exec.gemm %[[LOGITS]], {{.*}}lda = 64
// CHECK: exec.launch @sum_leading_x_bf16_8x64(read %[[LOGITS]] : memref<512xbf16>, write %[[ALL:.*]] : memref<64xf32>)
// CHECK: %[[PART:.*]] = exec.slice %[[ALL]][0] : memref<64xf32> to memref<6xf32>
// CHECK: exec.copy %{{.*}} from %[[PART]]
// CHECK: exec.gemm %[[LOGITS]], {{.*}}lda = 64
func.func @sharded_head(%h: tensor<8x4xbf16, #h>, %table: tensor<6x8xbf16, #table>, %bias: tensor<6xf32, #bias>, %targets: tensor<8xi32, #tokens>)
    -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xbf16, #h>, tensor<6x8xf32, #dtable>, tensor<6xf32, #dbias>) {
  %0:5 = ccl.head_loss_grad %h, %table, %targets bias(%bias) {axis = "col", chunk = 512 : i64}
    : (tensor<8x4xbf16, #h>, tensor<6x8xbf16, #table>, tensor<8xi32, #tokens>, tensor<6xf32, #bias>)
    -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xbf16, #h>, tensor<6x8xf32, #dtable>, tensor<6xf32, #dbias>)
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xbf16, #h>, tensor<6x8xf32, #dtable>, tensor<6xf32, #dbias>
}
