// RUN: optimus-opt %s --verify-roundtrip | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 3]>

func.func private @kernel(index, index, memref<64xf32>, memref<8xi32>, memref<64xf32>, i64, f32)

// CHECK-LABEL: func.func @buffers
func.func @buffers(%arena: memref<1024xi8>, %b: memref<64xf32>) {
  // CHECK: exec.alloc "activation" {name = "x"} : memref<32xf32>
  %0 = exec.alloc "activation" {name = "x"} : memref<32xf32>
  // CHECK: exec.arena_slot %{{.*}}[128] "workspace" : memref<1024xi8> to memref<16xf64>
  %1 = exec.arena_slot %arena[128] "workspace" : memref<1024xi8> to memref<16xf64>
  // CHECK: exec.slice %{{.*}}[32] : memref<64xf32> to memref<32xf32>
  %2 = exec.slice %b[32] : memref<64xf32> to memref<32xf32>
  // CHECK: exec.slice_rank %{{.*}} over ["row", "col"] stride 8 : memref<64xf32> to memref<24xf32>
  %3 = exec.slice_rank %b over ["row", "col"] stride 8 : memref<64xf32> to memref<24xf32>
  // CHECK: exec.select_rank "col" is 2, %{{.*}}, %{{.*}} : memref<32xf32>
  %4 = exec.select_rank "col" is 2, %0, %2 : memref<32xf32>
  // CHECK: exec.real_extent 4 of 10 over ["col"]
  %5 = exec.real_extent 4 of 10 over ["col"]
  // CHECK: exec.part_offset 4 over ["row", "col"]
  %6 = exec.part_offset 4 over ["row", "col"]
  return
}

// CHECK-LABEL: func.func @commands
func.func @commands(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %t: memref<8xi32>, %n: i64, %s: f32) {
  // CHECK: exec.gemm %{{.*}}, %{{.*}}, %{{.*}} {id = 0 : i32, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, m = 8 : i64, n = 8 : i64}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, id = 0 : i32} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  // CHECK: exec.gemm {{.*}} bias(%{{.*}} : memref<8xf32>) extra(%{{.*}} : memref<64xf32>) {accumulate, epilogue = #exec<epilogue mul>, {{.*}}trans_a, trans_b}
  %bias = exec.slice %b[0] : memref<64xf32> to memref<8xf32>
  exec.gemm %a, %b, %c bias(%bias : memref<8xf32>) extra(%a : memref<64xf32>)
    {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, ld_extra = 8 : i64,
     accumulate, trans_a, trans_b, epilogue = #exec<epilogue mul>} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  // CHECK: exec.pack %{{.*}} into %[[PACKED:.*]] {cols = 6 : i64, ld = 8 : i64, rows = 8 : i64, trans} : memref<64xf32>, memref<64xf32>
  %packed = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %b into %packed {rows = 8 : i64, cols = 6 : i64, ld = 8 : i64, trans} : memref<64xf32>, memref<64xf32>
  // CHECK: exec.gemm %{{.*}}, %[[PACKED]], %{{.*}} {k = 8 : i64, lda = 8 : i64, ldb = 64 : i64, ldc = 8 : i64, m = 8 : i64, n = 6 : i64, packed_b}
  exec.gemm %a, %packed, %c {m = 8 : i64, n = 6 : i64, k = 8 : i64, lda = 8 : i64, ldb = 64 : i64, ldc = 8 : i64, packed_b} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  // CHECK: exec.pack %{{.*}} into %[[BLOCKS:.*]] {blocks = #exec<blocks int4>, cols = 2 : i64, {{.*}}} : memref<64xf32>, memref<72xi32>
  %blocks = exec.alloc "packed weight" : memref<72xi32>
  exec.pack %b into %blocks {rows = 32 : i64, cols = 2 : i64, ld = 2 : i64, blocks = #exec<blocks int4>} : memref<64xf32>, memref<72xi32>
  // CHECK: exec.gemm %{{.*}}, %[[BLOCKS]], %{{.*}} {blocks = #exec<blocks int4>, {{.*}}packed_b} : memref<64xf32>, memref<72xi32>, memref<64xf32>
  exec.gemm %a, %blocks, %c {m = 2 : i64, n = 2 : i64, k = 32 : i64, lda = 32 : i64, ldb = 72 : i64, ldc = 2 : i64, packed_b, blocks = #exec<blocks int4>} : memref<64xf32>, memref<72xi32>, memref<64xf32>
  // CHECK: exec.launch @kernel extent 8 grain 2(read %{{.*}} : memref<64xf32>, read %{{.*}} : memref<8xi32>, update %{{.*}} : memref<64xf32>) scalars(%{{.*}}, %{{.*}} : i64, f32)
  exec.launch @kernel extent 8 grain 2 (read %a : memref<64xf32>, read %t : memref<8xi32>, update %c : memref<64xf32>) scalars(%n, %s : i64, f32)
  // CHECK: exec.copy %{{.*}} from %{{.*}} : memref<64xf32> {cols = 4 : i64, dst_ld = 8 : i64, rows = 8 : i64, src_ld = 8 : i64} : memref<64xf32>
  exec.copy %c from %a : memref<64xf32> {rows = 8 : i64, cols = 4 : i64, src_ld = 8 : i64, dst_ld = 8 : i64} : memref<64xf32>
  // CHECK: exec.copy %{{.*}} {cols = 64
  exec.copy %c {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  // CHECK: %[[TOKEN:.*]] = exec.collective_start all_reduce max over "col", %[[A:.*]] to %[[A]]
  // CHECK: exec.wait %[[TOKEN]]
  %token = exec.collective_start all_reduce max over "col", %a to %a {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %token
  // CHECK: exec.collective_start {{.*}} {carried = 3 : i32, dst_ld
  // CHECK: exec.wait_carried 3, %{{.*}}, %{{.*}} : memref<64xf32>, memref<64xf32>
  %later = exec.collective_start all_reduce max over "col", %a to %c {carried = 3 : i32, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait_carried 3, %a, %c : memref<64xf32>, memref<64xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%qkv: memref<192xf32>, %out: memref<64xf32>, %lse: memref<16xf32>, %dqkv: memref<192xf32>, %length: memref<1xi32>, %positions: memref<2xi32>) {
  %k = exec.slice %qkv[8] : memref<192xf32> to memref<184xf32>
  %v = exec.slice %qkv[16] : memref<192xf32> to memref<176xf32>
  // CHECK: exec.attention {{.*}} {batch = 1 : i64, causal, head_dim = 4 : i64, heads = 2 : i64, kv_heads = 2 : i64, kv_ld = 24 : i64, q_ld = 24 : i64, seq = 8 : i64}
  exec.attention %qkv, %k, %v, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64, causal} : memref<192xf32>, memref<184xf32>, memref<176xf32>, memref<64xf32>, memref<16xf32>
  %dk = exec.slice %dqkv[8] : memref<192xf32> to memref<184xf32>
  %dv = exec.slice %dqkv[16] : memref<192xf32> to memref<176xf32>
  // CHECK: exec.attention {{.*}} seq = 8 : i64, window = 3 : i64}
  exec.attention %qkv, %k, %v, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64, causal, window = 3 : i64} : memref<192xf32>, memref<184xf32>, memref<176xf32>, memref<64xf32>, memref<16xf32>
  // CHECK: exec.attention {{.*}} {batch = 1 : i64, capacity = 7 : i64, causal,
  exec.attention %qkv, %k, %v, %out, %lse lengths(%length : memref<1xi32>) positions(%positions : memref<2xi32>) {batch = 1 : i64, seq = 2 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64, causal, capacity = 7 : i64} : memref<192xf32>, memref<184xf32>, memref<176xf32>, memref<64xf32>, memref<16xf32>
  // CHECK: exec.attention_grad
  exec.attention_grad %out, %qkv, %k, %v, %out, %lse, %dqkv, %dk, %dv {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64} : memref<64xf32>, memref<192xf32>, memref<184xf32>, memref<176xf32>, memref<64xf32>, memref<16xf32>, memref<192xf32>, memref<184xf32>, memref<176xf32>
  return
}
