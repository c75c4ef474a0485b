// RUN: optimus-opt %s --optimus-exec-to-llvm=target=cuda --verify-diagnostics

// How a device launches a kernel follows from what it computes.
// expected-error @below {{is a kernel without its definition, 'exec.computes'}}
func.func private @twice(%begin: index, %end: index, %x: memref<512xf32>) attributes {exec.kernel} {
  return
}
