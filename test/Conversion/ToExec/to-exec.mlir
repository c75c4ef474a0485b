// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s

// Outputs follow the arguments, with the attributes of the results; what is
// returned is made there.
// CHECK-LABEL: func.func @outputs(
// CHECK-SAME: %[[X:.*]]: memref<32xf32> {exec.access = "read", exec.local_type = tensor<2x4x4xf32>, optimus.binding = "tokens"}, %[[SUM:.*]]: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, %[[GELU:.*]]: memref<32xf32>, %[[COPY:.*]]: memref<32xf32>, %[[AGAIN:.*]]: memref<4xf32>) {
// CHECK-NEXT: exec.launch @{{.*}} extent {{.*}} grain {{.*}}(read %[[X]] : memref<32xf32>, write %[[SUM]] : memref<4xf32>) {id = 0 : i32}
// CHECK-NEXT: exec.launch {{.*}}(read %[[X]] : memref<32xf32>, write %[[GELU]] : memref<32xf32>) {id = 1 : i32}
// CHECK-NEXT: exec.copy %[[COPY]] from %[[X]]
// CHECK-NEXT: exec.copy %[[AGAIN]] from %[[SUM]]
// CHECK-NEXT: return
func.func @outputs(%x: tensor<2x4x4xf32> {optimus.binding = "tokens"})
    -> (tensor<4xf32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<4xf32>) {
  %0 = optimus.sum_leading %x : (tensor<2x4x4xf32>) -> tensor<4xf32>
  %1 = optimus.gelu %x : tensor<2x4x4xf32>
  return %0, %1, %x, %0 : tensor<4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<4xf32>
}

// A donated argument is the destination, and needs no output.
// CHECK-LABEL: func.func @donates(
// CHECK-SAME: %[[P:.*]]: memref<8xf32> {exec.access = "update", exec.local_type = tensor<8xf32>, optimus.param = "p"}, %[[G:.*]]: memref<8xf32>, %[[M:.*]]: memref<8xf32>, %[[V:.*]]: memref<8xf32>, %[[S:.*]]: memref<1xf32>) {
// CHECK-NEXT: exec.launch @{{.*}}(read %[[P]] : memref<8xf32>, read %[[G]] : memref<8xf32>, read %[[M]] : memref<8xf32>, read %[[V]]
// CHECK-SAME: write %[[P]] : memref<8xf32>, write %[[M]] : memref<8xf32>, write %[[V]] : memref<8xf32>)
// CHECK-NEXT: return
func.func @donates(%p: tensor<8xf32> {optimus.param = "p", optimus.donates = 0 : i64}, %g: tensor<8xf32>,
                   %m: tensor<8xf32> {optimus.donates = 1 : i64}, %v: tensor<8xf32> {optimus.donates = 2 : i64}, %s: tensor<f32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0:3 = optimus.adamw %p, %g, %m, %v, %s, %s, %s, %s, %s, %s, %s, %s {decay}
    : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1, %0#2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// An operand is updated at its last use only, arguments never; what is updated
// on its way to an output is made there.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: %[[X:.*]]: memref<32xf32>, %[[OUT:.*]]: memref<32xf32>) {
// CHECK: %[[A:.*]] = exec.alloc "activation" {values = ["gelu:0"]} : memref<32xf32>
// CHECK: exec.launch @gelu{{.*}}(read %[[X]] : memref<32xf32>, write %[[A]]
// CHECK: exec.launch @gelu{{.*}}(read %[[A]] : memref<32xf32>, write %[[OUT]]
// CHECK: exec.launch @mul{{.*}}(read %[[OUT]] : memref<32xf32>, read %[[A]] : memref<32xf32>, write %[[OUT]]
// CHECK-NOT: exec.alloc
// CHECK: exec.launch @sqrt{{.*}}(read %[[OUT]] : memref<32xf32>, write %[[OUT]]
func.func @in_place(%x: tensor<32xf32>) -> tensor<32xf32> {
  %0 = optimus.gelu %x : tensor<32xf32>
  %1 = optimus.gelu %0 : tensor<32xf32>
  %2 = optimus.mul %1, %0 : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %3 = optimus.sqrt %2 : tensor<32xf32>
  return %3 : tensor<32xf32>
}

// A product reads its matrices as [M, K] and [K, N].
// CHECK-LABEL: func.func @product
// CHECK-SAME: %[[X:.*]]: memref<256xf32>, %[[W:.*]]: memref<384xf32> {exec.access = "read", exec.local_type = tensor<16x3x2x4xf32>, optimus.param = "w"}, %[[DY:.*]]: memref<384xf32>, %[[Y:.*]]: memref<384xf32>, %[[DX:.*]]: memref<256xf32>, %[[DW:.*]]: memref<384xf32>)
// CHECK-NEXT: exec.gemm %[[X]], %[[W]], %[[Y]] {id = 0 : i32, k = 16 : i64, lda = 16 : i64, ldb = 24 : i64, ldc = 24 : i64, m = 16 : i64, n = 24 : i64}
// CHECK-NEXT: exec.gemm %[[DY]], %[[W]], %[[DX]] {id = 1 : i32, k = 24 : i64, lda = 24 : i64, ldb = 24 : i64, ldc = 16 : i64, m = 16 : i64, n = 16 : i64, trans_b}
// CHECK-NEXT: exec.gemm %[[X]], %[[DY]], %[[DW]] {id = 2 : i32, k = 16 : i64, lda = 16 : i64, ldb = 24 : i64, ldc = 24 : i64, m = 16 : i64, n = 24 : i64, trans_a}
func.func @product(%x: tensor<2x8x16xf32>, %w: tensor<16x3x2x4xf32> {optimus.param = "w"}, %dy: tensor<2x8x3x2x4xf32>)
    -> (tensor<2x8x3x2x4xf32>, tensor<2x8x16xf32>, tensor<16x3x2x4xf32>) {
  %y = optimus.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x3x2x4xf32>) -> tensor<2x8x3x2x4xf32>
  %dx = optimus.matmul %dy, %w {contracting = 3 : i64, transpose_b} : (tensor<2x8x3x2x4xf32>, tensor<16x3x2x4xf32>) -> tensor<2x8x16xf32>
  %dw = optimus.matmul %x, %dy {contracting = 2 : i64, transpose_a} : (tensor<2x8x16xf32>, tensor<2x8x3x2x4xf32>) -> tensor<16x3x2x4xf32>
  return %y, %dx, %dw : tensor<2x8x3x2x4xf32>, tensor<2x8x16xf32>, tensor<16x3x2x4xf32>
}

// A residual that ends here is added to in place; another is an operand. With a
// scale there is no room for that operand, so it is copied first.
// CHECK-LABEL: func.func @residual
// CHECK: exec.launch @gelu{{.*}} write %[[R:[^ ]*]] :
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[Y:[^ ]*]] bias(%{{.*}} : memref<4xf32>) extra(%[[R]] : memref<32xf32>) {epilogue = #exec<epilogue add>, id = 1 : i32, k = 16 : i64, ld_extra = 4 : i64,
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[R]] {accumulate,
// CHECK: exec.copy %[[Z:[^ ]*]] from %[[Y]]
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[Z]] extra(%{{.*}} : memref<32xf32>) {accumulate, epilogue = #exec<epilogue mul>
func.func @residual(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>, %s: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %r = optimus.gelu %s : tensor<8x4xf32>
  %y = optimus.matmul %x, %w bias(%b) residual(%r) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = optimus.matmul %x, %w residual(%r) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %u = optimus.matmul %x, %w residual(%y) scale(%s) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y, %z, %u : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// Parameters' gradients first: dx replaces dy.
// CHECK-LABEL: func.func @layer_norm
// CHECK: exec.launch @layer_norm_{{.*}} extent 8
// CHECK: exec.launch @gelu{{.*}} write %[[DY:[^ ]*]] :
// CHECK: exec.launch @norm_param_grad{{.*}}(read %[[DY]]
// CHECK: exec.launch @layer_norm_grad{{.*}}(read %[[DY]]{{.*}} write %[[DY]]
func.func @layer_norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %dy: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  %dz = optimus.gelu %dy : tensor<8x4xf32>
  %dx, %dg, %db = optimus.layer_norm_grad %dz, %x, %m, %r, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %s = optimus.sum_leading %dx : (tensor<8x4xf32>) -> tensor<4xf32>
  return %y, %dg, %db, %s : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @attention
// The parts of one tensor are slices of its buffer, 16 elements apart.
// CHECK-SAME: %[[QKV:[^:]*]]: memref<384xf32>, %[[DOUT:[^:]*]]: memref<128xf32>, %[[DQKV:[^:]*]]: memref<384xf32>
// CHECK-DAG: %[[K:.*]] = exec.slice %[[QKV]][16] : memref<384xf32> to memref<368xf32>
// CHECK-DAG: %[[V:.*]] = exec.slice %[[QKV]][32] : memref<384xf32> to memref<352xf32>
// CHECK: exec.attention %[[QKV]], %[[K]], %[[V]], %[[OUT:[^,]*]], %[[LSE:[^ ]*]] {batch = 2 : i64, causal, head_dim = 8 : i64, heads = 2 : i64, id = 0 : i32, kv_heads = 2 : i64, kv_ld = 48 : i64, q_ld = 48 : i64, seq = 4 : i64}
// CHECK-DAG: %[[DK:.*]] = exec.slice %[[DQKV]][16] :
// CHECK-DAG: %[[DV:.*]] = exec.slice %[[DQKV]][32] :
// CHECK: exec.attention_grad %[[DOUT]], %[[QKV]], %{{.*}}, %{{.*}}, %[[OUT]], %[[LSE]], %[[DQKV]], %[[DK]], %[[DV]] {batch = 2 : i64, causal,
func.func @attention(%qkv: tensor<2x4x3x2x8xf32>, %dout: tensor<2x4x2x8xf32>) -> tensor<2x4x3x2x8xf32> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xf32>) -> (tensor<2x4x2x8xf32>, tensor<2x2x4xf32>)
  %d = optimus.attention_grad %dout, %o, %l, %qkv {causal} : (tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4xf32>, tensor<2x4x3x2x8xf32>) -> tensor<2x4x3x2x8xf32>
  return %d : tensor<2x4x3x2x8xf32>
}

// CHECK-LABEL: func.func @attention_of_groups
// CHECK-SAME: %[[Q:[^:]*]]: memref<384xf32>, %[[KV:[^:]*]]: memref<128xf32>, %[[O:[^:]*]]: memref<384xf32>, %[[L:[^:]*]]: memref<48xf32>
// CHECK: exec.attention %[[Q]], %[[KV]], %[[KV]], %[[O]], %[[L]] {batch = 2 : i64, head_dim = 8 : i64, heads = 6 : i64, id = 0 : i32, kv_heads = 2 : i64, kv_ld = 16 : i64, q_ld = 48 : i64, seq = 4 : i64}
func.func @attention_of_groups(%q: tensor<2x4x2x3x8xf32>, %kv: tensor<2x4x2x8xf32>) -> (tensor<2x4x2x3x8xf32>, tensor<2x2x3x4xf32>) {
  %o, %l = optimus.attention %q, %kv, %kv : (tensor<2x4x2x3x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>) -> (tensor<2x4x2x3x8xf32>, tensor<2x2x3x4xf32>)
  return %o, %l : tensor<2x4x2x3x8xf32>, tensor<2x2x3x4xf32>
}

// The look-up's gradient adds to the head's, in the gradient's output; where
// that is still needed, to a copy.
// CHECK-LABEL: func.func @embedding
// CHECK-SAME: %[[DY:.*]]: memref<32xf32>, %[[TOKENS:.*]]: memref<8xi32>, %{{.*}}: memref<24xf32>, %[[OUT:.*]]: memref<24xf32> {exec.access = "write", exec.local_type = tensor<6x4xf32>, optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>}, %[[BOTH:.*]]: memref<24xf32>)
// CHECK: exec.launch @gelu{{.*}}write %[[OUT]] :
// CHECK: exec.copy %[[BOTH]] from %[[OUT]]
// CHECK: exec.launch @embedding_grad_add_8_pad_5_6x4 {{.*}}(read %[[DY]] : memref<32xf32>, read %[[TOKENS]] : memref<8xi32>, update %[[BOTH]]
// CHECK: exec.launch {{.*}}(read %[[DY]] : memref<32xf32>, read %[[TOKENS]] : memref<8xi32>, update %[[OUT]]
func.func @embedding(%dy: tensor<8x4xf32>, %tokens: tensor<8xi32>, %dw: tensor<6x4xf32>) -> (tensor<6x4xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>}, tensor<6x4xf32>) {
  %0 = optimus.gelu %dw : tensor<6x4xf32>
  %1 = optimus.embedding_grad %dy, %tokens accumulate(%0) {pad = 5 : i64} : (tensor<8x4xf32>, tensor<8xi32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %2 = optimus.embedding_grad %dy, %tokens accumulate(%0) : (tensor<8x4xf32>, tensor<8xi32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %2, %1 : tensor<6x4xf32>, tensor<6x4xf32>
}

// Squares are summed in f64 over all operands before they are rounded.
// CHECK-LABEL: func.func @norm
// CHECK: %[[P:.*]] = exec.alloc "workspace" {name = "partial sums"} : memref<2xf64>
// CHECK: exec.slice %[[P]][0]
// CHECK: exec.slice %[[P]][1]
// CHECK: exec.launch @sum_partials_2 {{.*}}(read %[[P]] : memref<2xf64>, write %[[N:[^ ]*]] : memref<1xf32>)
// CHECK: exec.launch @sqrt_1 {{.*}}(read %[[N]] : memref<1xf32>, write %[[N]]
func.func @norm(%a: tensor<8xf32>, %b: tensor<4x4xf32>) -> tensor<f32> {
  %0 = optimus.global_norm %a, %b : (tensor<8xf32>, tensor<4x4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Kernels are made once.
// CHECK: func.func private @gelu_32(
// CHECK-NOT: func.func private @gelu_32(
