// RUN: optimus-interpret %s --function scores --compare-with loss --draw 1 | FileCheck %s

// Their sum is the loss, but for its sign; a negative target counts nothing.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @loss

func.func @loss(%h: tensor<3x1x4xf32>, %t: tensor<5x4xf32>) -> tensor<f32> {
  %k = arith.constant dense<[[4], [-1], [0]]> : tensor<3x1xi32>
  %0, %1 = optimus.head_loss %h, %t, %k : (tensor<3x1x4xf32>, tensor<5x4xf32>, tensor<3x1xi32>) -> (tensor<f32>, tensor<f32>)
  return %0 : tensor<f32>
}
func.func @scores(%h: tensor<3x1x4xf32>, %t: tensor<5x4xf32>) -> tensor<f32> {
  %k = arith.constant dense<[[4], [-1], [0]]> : tensor<3x1xi32>
  %logits = optimus.head %h, %t : (tensor<3x1x4xf32>, tensor<5x4xf32>) -> tensor<3x1x5xf32>
  %p = optimus.log_probabilities %logits, %k : (tensor<3x1x5xf32>, tensor<3x1xi32>) -> tensor<3x1xf32>
  %minus = arith.constant dense<[[-1.0], [-1.0], [-1.0]]> : tensor<3x1xf32>
  %s = optimus.matmul %p, %minus {contracting = 2 : i64} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
