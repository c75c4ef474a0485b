// RUN: optimus-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// Element types that commands take together, then those that they refuse.

optimus.mesh @mesh <["row" = 2]>

// CHECK-LABEL: func.func @narrow
func.func @narrow(%arena: memref<1024xi8>, %a: memref<64xbf16>, %h: memref<64xf16>, %b: memref<64xf32>, %bias: memref<8xf32>) {
  // CHECK: exec.arena_slot %{{.*}}[64] "activation" : memref<1024xi8> to memref<64xbf16>
  %c = exec.arena_slot %arena[64] "activation" : memref<1024xi8> to memref<64xbf16>
  // CHECK: exec.gemm %{{.*}} : memref<64xbf16>, memref<64xbf16>, memref<64xf32>
  exec.gemm %a, %a, %b {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xf32>
  // CHECK: exec.gemm %{{.*}} bias(%{{.*}} : memref<8xf32>) extra(%{{.*}} : memref<64xf32>) {{.*}} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>
  exec.gemm %a, %a, %c bias(%bias : memref<8xf32>) extra(%b : memref<64xf32>)
    {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, ld_extra = 8 : i64, epilogue = #exec<epilogue add>} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>
  // CHECK: exec.copy %{{.*}} from %{{.*}} : memref<64xbf16> {{.*}} : memref<64xbf16>
  exec.copy %c from %a : memref<64xbf16> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xbf16>
  // CHECK: exec.collective_start all_reduce sum over "row", {{.*}} : memref<64xf16>, memref<64xf16>
  %0 = exec.collective_start all_reduce sum over "row", %h to %h {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf16>, memref<64xf16>
  exec.wait %0
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%x: memref<64xbf16>, %out: memref<64xbf16>, %lse: memref<16xf32>) {
  // CHECK: exec.attention %{{.*}} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<16xf32>
  exec.attention %x, %x, %x, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<16xf32>
  return
}

// -----

func.func @gemm_c6(%a: memref<64xbf16>, %b: memref<64xf32>, %c: memref<64xbf16>) {
  // expected-error @below {{B must be of 'bf16' elements, found 'f32'}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xbf16>, memref<64xf32>, memref<64xbf16>
  return
}

// -----

func.func @gemm_c6_result(%a: memref<64xbf16>, %b: memref<64xbf16>, %c: memref<64xf16>) {
  // expected-error @below {{C must be of 'bf16' or f32 elements, found 'f16'}}
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xf16>
  return
}

// -----

func.func @gemm_c6_bias(%a: memref<64xbf16>, %b: memref<64xbf16>, %c: memref<64xf32>, %bias: memref<8xbf16>) {
  // expected-error @below {{bias must be of 'f32' elements, found 'bf16'}}
  exec.gemm %a, %b, %c bias(%bias : memref<8xbf16>) {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xf32>
  return
}

// -----

func.func @gemm_c6_extra(%a: memref<64xbf16>, %b: memref<64xbf16>, %c: memref<64xbf16>, %extra: memref<64xf16>) {
  // expected-error @below {{extra must be of 'bf16' or f32 elements, found 'f16'}}
  exec.gemm %a, %b, %c extra(%extra : memref<64xf16>) {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, ld_extra = 8 : i64, epilogue = #exec<epilogue mul>} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>
  return
}

// -----

func.func @copy_c4(%a: memref<64xbf16>, %b: memref<64xf32>) {
  // expected-error @below {{src must be of 'f32' elements, found 'bf16'}}
  exec.copy %b from %a : memref<64xbf16> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @collective_c6(%a: memref<64xbf16>, %b: memref<64xf32>) {
  // expected-error @below {{src must be of 'f32' elements, found 'bf16'}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xbf16>, memref<64xf32>
  exec.wait %0
  return
}

// -----

func.func @attention_c5(%x: memref<64xbf16>, %out: memref<64xf32>, %lse: memref<16xf32>) {
  // expected-error @below {{out must be of 'bf16' elements, found 'f32'}}
  exec.attention %x, %x, %x, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<64xf32>, memref<16xf32>
  return
}

// -----

func.func @attention_lse(%x: memref<64xbf16>, %out: memref<64xbf16>, %lse: memref<16xbf16>) {
  // expected-error @below {{must be flat buffer of 1 to 2^48 f32, but got 'memref<16xbf16>'}}
  exec.attention %x, %x, %x, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64} : memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<64xbf16>, memref<16xbf16>
  return
}
