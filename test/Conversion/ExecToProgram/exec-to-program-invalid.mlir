// RUN: optimus-opt %s --optimus-print-commands --split-input-file --verify-diagnostics

func.func @no_number(%x: memref<4xf32>) {
  // expected-error @below {{has no number; run --optimus-to-exec first}}
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  return
}

// -----

func.func private @k(index, index, memref<4xf32>) attributes {exec.kernel}
func.func @no_extent(%x: memref<4xf32>) {
  // expected-error @below {{has no extent; run --optimus-build-kernels first}}
  exec.launch @k(read %x : memref<4xf32>) {id = 0 : i32, queue = "compute"}
  return
}

// -----

func.func @another_number(%x: memref<4xf32>) {
  // expected-error @below {{expected number 0, found 1}}
  exec.copy %x {rows = 1, cols = 4, src_ld = 0, dst_ld = 4, id = 1 : i32} : memref<4xf32>
  return
}

// -----

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

// -----

// expected-error @below {{expected no results on a function of commands; run --optimus-to-exec first}}
func.func @on_tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected buffers as arguments, found 'tensor<4xf32>'; run --optimus-to-exec first}}
func.func @of_tensors(%x: tensor<4xf32>) {
  return
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

// -----

// What nothing orders never leaves the compiler.
// expected-error @below {{the table of commands is wrong: target cpu: function race: command 1 (all_reduce) reads what command 0 (copy) writes, and nothing orders the two}}
module {
  optimus.mesh @mesh <["row" = 2]>
  func.func @race(%x: memref<4xf32>, %y: memref<4xf32>) {
    exec.copy %x from %y : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4, id = 0 : i32, queue = "compute"} : memref<4xf32>
    %0 = exec.collective_start all_reduce sum over "row", %x to %x {outer = 1, inner = 4, src_ld = 4, dst_ld = 4, id = 1 : i32, queue = "row"} : memref<4xf32>, memref<4xf32>
    exec.wait %0 {id = 2 : i32, queue = "compute"}
    return
  }
}
