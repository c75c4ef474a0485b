// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s

#local_h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#local_table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#local_dtable = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#local_tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#local_sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// 10 tokens in chunks of 4: the last has 2. The table's gradient is stored by
// the first chunk and added to by the others. Nothing is reduced between the
// softmax and its gradient, so one kernel does both.
// CHECK-LABEL: func.func @serial(
// CHECK-SAME: %[[H:.*]]: memref<80xf32>, %[[TABLE:.*]]: memref<48xf32> {exec.access = "read", exec.local_type = tensor<6x8xf32>, optimus.param = "wte"}, %[[TARGETS:.*]]: memref<10xi32>, %[[LOSS:.*]]: memref<1xf32>, %[[COUNT:.*]]: memref<1xf32>, %[[DH:.*]]: memref<80xf32>, %[[DTABLE:.*]]: memref<48xf32>)
// CHECK-DAG: %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK-DAG: %[[REAL:.*]] = arith.constant 6 : i64
// CHECK: %[[LOGITS:.*]] = exec.alloc "workspace" {name = "logits"} : memref<24xf32>
// CHECK: %[[SUMS:.*]] = exec.alloc "workspace" {name = "softmax sums"} : memref<8xf32>
// CHECK: %[[LOSSES:.*]] = exec.alloc "workspace" {name = "token losses"} : memref<10xf32>
// CHECK: %[[H0:.*]] = exec.slice %[[H]][0] : memref<80xf32> to memref<32xf32>
// CHECK: exec.gemm %[[H0]], %[[TABLE]], %[[LOGITS]] {{{.*}}k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 6 : i64, m = 4 : i64, n = 6 : i64, trans_b}
// CHECK: %[[T0:.*]] = exec.slice %[[TARGETS]][0] : memref<10xi32> to memref<4xi32>
// CHECK: exec.launch @softmax_sums_grad_4x6 {{.*}}(update %[[LOGITS]] : memref<24xf32>, read %[[T0]] : memref<4xi32>, write %[[SUMS]] : memref<8xf32>) scalars(%[[FIRST]], %[[REAL]] : i64, i64)
// CHECK: exec.launch @token_loss_4
// CHECK: exec.gemm %[[LOGITS]], %[[H0]], %[[DTABLE]] {id = {{[0-9]+}} : i32, k = 4 : i64, lda = 6 : i64, ldb = 8 : i64, ldc = 8 : i64, m = 6 : i64, n = 8 : i64, trans_a}
// CHECK: %[[DH0:.*]] = exec.slice %[[DH]][0] : memref<80xf32> to memref<32xf32>
// CHECK: exec.gemm %[[LOGITS]], %[[TABLE]], %[[DH0]] {{{.*}}k = 6 : i64, lda = 6 : i64, ldb = 8 : i64, ldc = 8 : i64, m = 4 : i64, n = 8 : i64}
// CHECK: exec.slice %[[H]][32] : memref<80xf32> to memref<32xf32>
// CHECK: exec.gemm {{.*}}, %[[DTABLE]] {accumulate,
// CHECK: exec.slice %[[H]][64] : memref<80xf32> to memref<16xf32>
// CHECK: exec.slice %[[LOGITS]][0] : memref<24xf32> to memref<12xf32>
// CHECK: exec.slice %[[LOSSES]][8] : memref<10xf32> to memref<2xf32>
// CHECK: exec.gemm {{.*}}, %[[DTABLE]] {accumulate,
// CHECK: exec.slice %[[DH]][64] : memref<80xf32> to memref<16xf32>
// CHECK: exec.launch @sum_tokens_10 {{.*}}(read %[[LOSSES]] : memref<10xf32>, write %[[LOSS]]
// CHECK: exec.launch @count_real_10 {{.*}}(read %[[TARGETS]] : memref<10xi32>, write %[[COUNT]]
func.func @serial(%h: tensor<2x5x8xf32>, %table: tensor<6x8xf32> {optimus.param = "wte"}, %targets: tensor<2x5xi32>)
    -> (tensor<f32>, tensor<f32>, tensor<2x5x8xf32>, tensor<6x8xf32>) {
  %0:4 = optimus.head_loss_grad %h, %table, %targets {chunk = 4 : i64} : (tensor<2x5x8xf32>, tensor<6x8xf32>, tensor<2x5xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x5x8xf32>, tensor<6x8xf32>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<f32>, tensor<f32>, tensor<2x5x8xf32>, tensor<6x8xf32>
}

// Without gradient nothing but the loss is made.
// CHECK-LABEL: func.func @loss_only
// CHECK-COUNT-1: exec.gemm
// CHECK-NOT: exec.gemm
// CHECK: exec.launch @softmax_sums_4x6
// CHECK-NOT: exec.gemm
// CHECK: return
func.func @loss_only(%h: tensor<4x8xf32>, %table: tensor<6x8xf32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = optimus.head_loss %h, %table, %targets : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// The vocabulary of 11 is sharded over "col" into two parts of 6, h likewise.
// CHECK-LABEL: func.func @sharded(
// CHECK-SAME: %[[H:.*]]: memref<32xf32>, %[[TABLE:.*]]: memref<48xf32>, %[[TARGETS:.*]]: memref<8xi32>, {{.*}}, %[[DH:.*]]: memref<32xf32>, %[[DTABLE:.*]]: memref<48xf32>)
// CHECK: %[[FIRST:.*]] = exec.part_offset 6 over ["col"]
// CHECK: %[[REAL:.*]] = exec.real_extent 6 of 11 over ["col"]
// CHECK: %[[GATHER:.*]] = exec.collective_start all_gather sum over "col", %[[H]] to %[[WHOLE:[^ ]*]] {dst_ld = 8 : i64, id = 0 : i32, inner = 4 : i64, outer = 8 : i64, src_ld = 4 : i64}
// CHECK-NEXT: exec.wait %[[GATHER]]
// CHECK: exec.gemm %[[WHOLE]], %[[TABLE]], %[[LOGITS:[^ ]*]] {
// CHECK: exec.launch @row_max_8x6 {{.*}}(read %[[LOGITS]] : memref<48xf32>, write %[[MAX:[^ ]*]] : memref<8xf32>) scalars(%[[REAL]] : i64)
// CHECK: exec.collective_start all_reduce max over "col", %[[MAX]] to %[[MAX]] {dst_ld = 8 : i64, {{.*}}inner = 8 : i64, outer = 1 : i64
// CHECK: exec.launch @exp_sum_8x6 {{.*}}(update %[[LOGITS]] : memref<48xf32>, read %[[MAX]] : memref<8xf32>, read %[[TARGETS]] : memref<8xi32>, write %[[SUMS:[^ ]*]] : memref<16xf32>) scalars(%[[FIRST]], %[[REAL]] : i64, i64)
// CHECK: exec.collective_start all_reduce sum over "col", %[[SUMS]] to %[[SUMS]]
// CHECK: exec.launch @logits_grad_8x6 {{.*}}(update %[[LOGITS]] : memref<48xf32>, read %[[SUMS]] : memref<16xf32>, read %[[TARGETS]] : memref<8xi32>) scalars(%[[FIRST]] : i64)
// CHECK: exec.gemm %[[LOGITS]], %[[WHOLE]], %[[DTABLE]]
// CHECK: exec.gemm %[[LOGITS]], %[[TABLE]], %[[PARTIAL:[^ ]*]] {
// CHECK: exec.collective_start reduce_scatter sum over "col", %[[PARTIAL]] to %[[DH]] {dst_ld = 4 : i64, {{.*}}inner = 4 : i64, outer = 8 : i64, src_ld = 8 : i64}
func.func @sharded(%h: tensor<8x4xf32, #local_h>, %table: tensor<6x8xf32, #local_table>, %targets: tensor<8xi32, #local_tokens>)
    -> (tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x4xf32, #local_h>, tensor<6x8xf32, #local_dtable>) {
  %0:4 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64}
    : (tensor<8x4xf32, #local_h>, tensor<6x8xf32, #local_table>, tensor<8xi32, #local_tokens>)
    -> (tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x4xf32, #local_h>, tensor<6x8xf32, #local_dtable>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x4xf32, #local_h>, tensor<6x8xf32, #local_dtable>
}

#whole_h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>

// Where h is whole, so is dh: its partial sums are reduced in place.
// CHECK-LABEL: func.func @whole_h(
// CHECK-SAME: {{.*}}, %[[DH:.*]]: memref<64xf32>, %{{.*}}: memref<48xf32>)
// CHECK-NOT: all_gather
// CHECK: exec.gemm {{.*}}, %[[DH]] {
// CHECK: exec.collective_start all_reduce sum over "col", %[[DH]] to %[[DH]] {{.*}}inner = 64
func.func @whole_h(%h: tensor<8x8xf32, #whole_h>, %table: tensor<6x8xf32, #local_table>, %targets: tensor<8xi32, #local_tokens>)
    -> (tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x8xf32, #whole_h>, tensor<6x8xf32, #local_dtable>) {
  %0:4 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64}
    : (tensor<8x8xf32, #whole_h>, tensor<6x8xf32, #local_table>, tensor<8xi32, #local_tokens>)
    -> (tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x8xf32, #whole_h>, tensor<6x8xf32, #local_dtable>)
  return %0#0, %0#1, %0#2, %0#3 : tensor<f32, #local_sum>, tensor<f32, #local_sum>, tensor<8x8xf32, #whole_h>, tensor<6x8xf32, #local_dtable>
}
