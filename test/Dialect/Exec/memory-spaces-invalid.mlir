// RUN: optimus-opt %s --split-input-file --optimus-verify-exec --verify-diagnostics

func.func @computes_on_the_host(%x: memref<64xf32, #exec<space host>>, %y: memref<64xf32>) {
  // expected-error @below {{operand #0 must be flat buffer of}}
  exec.gemm %x, %y, %y {m = 8, n = 8, k = 8, lda = 8, ldb = 8, ldc = 8}
    : memref<64xf32, #exec<space host>>, memref<64xf32>, memref<64xf32>
  return
}

// -----

func.func @copy_c6_another_space(%x: memref<64xf32, #exec<space host>>, %y: memref<64xf32>) {
  // expected-error @below {{is not for kernel @k: expected a source in the memory of the result}}
  exec.copy %y from %x : memref<64xf32, #exec<space host>> {rows = 2, cols = 8, src_ld = 16, dst_ld = 8, kernel = @k} : memref<64xf32>
  return
}

// -----

func.func @copy_c6_zeros(%y: memref<64xf32>) {
  // expected-error @below {{is not for kernel @k: expected a source in the memory of the result}}
  exec.copy %y {rows = 2, cols = 8, src_ld = 0, dst_ld = 16, kernel = @k} : memref<64xf32>
  return
}

// -----

func.func @unknown_space(%x: memref<64xf32, 3>) {
  // expected-error @below {{operand #0 must be flat buffer of}}
  exec.copy %x {rows = 1, cols = 64, src_ld = 0, dst_ld = 64} : memref<64xf32, 3>
  return
}

// -----

func.func @another_space(%x: memref<64xf32, #exec<space host>>) {
  // expected-error @below {{is in another memory space than its buffer}}
  %y = exec.slice %x[0] : memref<64xf32, #exec<space host>> to memref<32xf32>
  exec.copy %y {rows = 1, cols = 32, src_ld = 0, dst_ld = 32} : memref<32xf32>
  return
}

// -----

func.func @slot_elsewhere(%arena: memref<256xi8, #exec<space host>>) {
  // expected-error @below {{is in another memory space than its arena}}
  %x = exec.arena_slot %arena[0] "activation" : memref<256xi8, #exec<space host>> to memref<64xf32>
  exec.copy %x {rows = 1, cols = 64, src_ld = 0, dst_ld = 64} : memref<64xf32>
  return
}

// -----

func.func @two_arenas(%arena: memref<256xi8>, %host: memref<256xi8, #exec<space host>>,
                      %other: memref<256xi8, #exec<space host>>) attributes {exec.arena_bytes = 256 : i64} {
  // expected-error @below {{V6: is not in the arena, the function's first argument of its memory space}}
  %x = exec.arena_slot %other[0] "activation" : memref<256xi8, #exec<space host>> to memref<64xf32, #exec<space host>>
  return
}
