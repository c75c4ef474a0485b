// RUN: not optimus-opt %s --optimus-to-exec='target=abacus' 2>&1 | FileCheck %s

// CHECK: error: unknown target 'abacus'; known are cpu
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = optimus.gelu %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
