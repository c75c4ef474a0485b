// RUN: optimus-opt %s --optimus-kernels-to-nvvm --split-input-file --verify-diagnostics

// expected-error @+1 {{'func.func' op expected a body and 'exec.computes', as --optimus-build-kernels=target=cuda leaves them}}
func.func private @gelu_4096(index, index, memref<4096xf32>, memref<4096xf32>)
  attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.gelu", attributes = {},
    rows = 1 : i64, cols = 4096 : i64, repeats = array<i64: 0>, results = 1 : i64}}

// -----

// expected-error @+1 {{expected a body and 'exec.computes'}}
func.func private @mine(%begin: index, %end: index) attributes {exec.kernel} {
  return
}
