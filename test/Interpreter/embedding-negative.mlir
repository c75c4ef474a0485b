// RUN: optimus-interpret %s --function none --compare-with zeros --draw 1 | FileCheck %s

// What is negative is no token: it looks up zeros.
// CHECK: result0: 0.0e+00 from @zeros

func.func @none(%t: tensor<2x3xf32>, %z: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %k = arith.constant dense<[-1, 1]> : tensor<2xi32>
  %0 = optimus.embedding %t, %k : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func @zeros(%t: tensor<2x3xf32>, %z: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %mask = arith.constant dense<[[0.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %0 = optimus.matmul %mask, %t : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
