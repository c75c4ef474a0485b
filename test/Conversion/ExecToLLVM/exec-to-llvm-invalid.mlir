// RUN: optimus-opt %s --optimus-exec-to-llvm --split-input-file --verify-diagnostics

// All that exec-to-program-invalid.mlir has is refused here, too.
func.func @no_queue(%x: memref<4xf32>) {
  // expected-error @below {{has no queue; run --optimus-order-commands first}}
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4, id = 0 : i32} : memref<4xf32>
  return
}

// -----

func.func @no_place() {
  // expected-error @below {{has no place in the arena; run --optimus-place-buffers first}}
  %x = exec.alloc "activation" : memref<4xf32>
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4, id = 0 : i32, queue = "compute"} : memref<4xf32>
  return
}
