// RUN: optimus-interpret %s --function best --compare-with expected | FileCheck %s

// The highest first, of equal ones the first, and then their places.
// CHECK: result0: 0.0e+00 from @expected

func.func @best() -> tensor<2x6xf32> {
  %x = arith.constant dense<[[1.0, 3.0, 3.0, 2.0, -1.0], [0.0, -5.0, -5.0, -5.0, 7.0]]> : tensor<2x5xf32>
  %0 = optimus.best %x {count = 3 : i64} : (tensor<2x5xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
func.func @expected() -> tensor<2x6xf32> {
  %0 = arith.constant dense<[[3.0, 3.0, 2.0, 1.0, 2.0, 3.0], [7.0, 0.0, -5.0, 4.0, 0.0, 1.0]]> : tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
