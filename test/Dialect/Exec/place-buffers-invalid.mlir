// RUN: optimus-opt %s --optimus-place-buffers --verify-diagnostics

// expected-error @below {{has an arena already}}
func.func @twice(%arena: memref<256xi8>, %b: memref<64xf32>) attributes {exec.arena_bytes = 256 : i64} {
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}
