// RUN: optimus-opt %s --optimus-exec-to-llvm --split-input-file --verify-diagnostics

func.func @no_number(%x: memref<4xf32>) {
  // expected-error @below {{has no number; run --optimus-to-exec first}}
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  return
}

// -----

func.func @no_place() {
  // expected-error @below {{has no place in the arena; run --optimus-place-buffers first}}
  %x = exec.alloc "activation" : memref<4xf32>
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4, id = 0 : i32} : memref<4xf32>
  return
}

// -----

// expected-error @below {{expected no results on a function of commands; run --optimus-to-exec first}}
func.func @on_tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @no_command(%x: memref<4xf32>) {
  %zero = arith.constant 0 : index
  // expected-error @below {{is no command of the device program; run --optimus-to-exec first}}
  %0 = memref.load %x[%zero] : memref<4xf32>
  return
}

// -----

// expected-error @below {{expected straight-line commands, found control flow}}
func.func @branches(%x: memref<4xf32>) {
  llvm.br ^next
^next:
  return
}
