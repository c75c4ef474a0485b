// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 7 | FileCheck %s --check-prefix=SHARDED
// RUN: optimus-interpret %s --function in_parts --compare-with loss --draw 3 | FileCheck %s --check-prefix=LOSS
// RUN: optimus-interpret %s --function by_hand --print | FileCheck %s --check-prefix=HAND

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[3, 2, 5], #optimus.sharding<@mesh, [{"row"}, {}, {}]>>
#t = #ccl.local<[7, 5], #optimus.sharding<@mesh, [{"col"}, {}]>>
#b = #ccl.local<[7], #optimus.sharding<@mesh, [{"col"}]>>
#l = #ccl.local<[3, 2, 7], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>>

// A vocabulary of 7 in three parts of 3, 5 hidden elements padded to 6, and 3
// sequences on two ranks.
// SHARDED: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
func.func @serial(%h: tensor<3x2x5xf32>, %table: tensor<7x5xf32>, %bias: tensor<7xf32>) -> tensor<3x2x7xf32> {
  %0 = optimus.head %h, %table bias(%bias) : (tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<7xf32>) -> tensor<3x2x7xf32>
  return %0 : tensor<3x2x7xf32>
}
func.func @sharded(%h: tensor<2x2x6xf32, #h>, %table: tensor<3x6xf32, #t>, %bias: tensor<3xf32, #b>) -> tensor<2x2x3xf32, #l> {
  %0 = optimus.head %h, %table bias(%bias) : (tensor<2x2x6xf32, #h>, tensor<3x6xf32, #t>, tensor<3xf32, #b>) -> tensor<2x2x3xf32, #l>
  return %0 : tensor<2x2x3xf32, #l>
}

// A head with its loss is the head and then the cross-entropy of the logits,
// which is a loss whose head is the identity.
// LOSS: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @loss
// LOSS: result1: 0.0e+00 from @loss
func.func @loss(%h: tensor<3x2x2xf32>, %table: tensor<3x2xf32>, %bias: tensor<3xf32>, %targets: tensor<3x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0:2 = optimus.head_loss %h, %table, %targets bias(%bias) : (tensor<3x2x2xf32>, tensor<3x2xf32>, tensor<3x2xi32>, tensor<3xf32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func @in_parts(%h: tensor<3x2x2xf32>, %table: tensor<3x2xf32>, %bias: tensor<3xf32>, %targets: tensor<3x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %logits = optimus.head %h, %table bias(%bias) : (tensor<3x2x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<3x2x3xf32>
  %identity = arith.constant dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32>
  %0:2 = optimus.head_loss %logits, %identity, %targets : (tensor<3x2x3xf32>, tensor<3x3xf32>, tensor<3x2xi32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// HAND: result0 = [12, 22, 3]
func.func @by_hand() -> tensor<1x3xf32> {
  %h = arith.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %table = arith.constant dense<[[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]> : tensor<3x2xf32>
  %bias = arith.constant dense<[10.0, 20.0, 0.0]> : tensor<3xf32>
  %0 = optimus.head %h, %table bias(%bias) : (tensor<1x2xf32>, tensor<3x2xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}
