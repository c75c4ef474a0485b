// RUN: optimus-opt %s --optimus-place-buffers --split-input-file --verify-diagnostics

// expected-error @below {{has an arena already}}
func.func @twice(%arena: memref<256xi8>, %b: memref<64xf32>) attributes {exec.arena_bytes = 256 : i64} {
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

// expected-error @below {{has buffers of 4503599627370560 bytes together; expected at most 4503599627370496}}
func.func @too_much(%b: memref<64xf32>) {
  %0 = exec.alloc "activation" : memref<281474976710656xf64>
  %1 = exec.alloc "activation" : memref<281474976710656xf64>
  %2 = exec.alloc "activation" : memref<1xf32>
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}
