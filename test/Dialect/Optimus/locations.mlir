// RUN: %optimus-opt %s --optimus-differentiate --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=GRAD
// RUN: %optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=lamb --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=STEP
// RUN: %optimus-opt %s --optimus-differentiate --optimus-build-step='optimizer=adamw accumulate=true' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=SUM

// The gradient of operand k is result k of the backward. A result that several
// read has a sum of gradients, which belongs to the operation that adds one.
// GRAD-LABEL: func.func @grad(
// GRAD: optimus.embedding {{.*}} loc("wte"("m.py":3:0))
// GRAD: optimus.gelu_with_slope {{.*}} loc("mlp.gelu"("m.py":5:0))
// GRAD: optimus.head_loss_grad {{.*}} loc("head"("m.py":7:0))
// GRAD: optimus.matmul {{.*}}transpose_b{{.*}} loc(fused<#optimus.origin<phase = backward>>["mlp.down"("m.py":6:0)])
// GRAD: optimus.matmul {{.*}}transpose_a{{.*}} loc(fused<#optimus.origin<phase = backward, result = 1>>["mlp.down"("m.py":6:0)])
// GRAD: optimus.mul {{.*}} loc(fused<#optimus.origin<phase = backward>>["mlp.gelu"("m.py":5:0)])
// GRAD: optimus.sum_leading {{.*}} loc(fused<#optimus.origin<phase = backward, result = 1>>["mlp.bias"("m.py":4:0)])
// GRAD: optimus.add {{.*}} loc(fused<#optimus.origin<phase = backward, part = "sum">>["mlp.up"("m.py":4:0)])
// GRAD: optimus.embedding_grad {{.*}} loc(fused<#optimus.origin<phase = backward>>["wte"("m.py":3:0)])

// What the optimizer does is at the parameter, which has its name for a path.
// STEP-LABEL: func.func @train_step(
// STEP: optimus.matmul {{.*}} loc("mlp.up"("m.py":4:0))
// The same path twice: the second has its kind in its id.
// STEP: optimus.add {{.*}} loc(fused<#optimus.origin<phase = forward, part = "add">>["mlp.sum"("m.py":8:0)])
// STEP: optimus.reshard {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "gradient">>["wte.weight"("m.py":1:0)])
// STEP: optimus.reshard {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "gradient">>["w"({{.*}}locations.mlir":{{.*}})])
// STEP: optimus.global_norm {{.*}} loc(fused<#optimus.origin<phase = optimizer>>["grad_norm"({{.*}})])
// STEP: optimus.clip {{.*}} loc(fused<#optimus.origin<phase = optimizer>>["clip"({{.*}})])
// STEP: optimus.lamb_direction {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "direction">>["wte.weight"("m.py":1:0)])
// STEP: optimus.global_norm {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "norm">>["wte.weight"("m.py":1:0)])
// STEP: optimus.global_norm {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "norm", ordinal = 1>>["wte.weight"("m.py":1:0)])
// STEP: optimus.lamb_update {{.*}} loc(fused<#optimus.origin<phase = optimizer>>["wte.weight"("m.py":1:0)])

// SUM-LABEL: func.func @accumulate(
// SUM: optimus.add {{.*}} loc(fused<#optimus.origin<phase = forward, part = "microbatches">>["head"("m.py":7:0)])
// SUM: optimus.add {{.*}} loc(fused<#optimus.origin<phase = forward, part = "microbatches", ordinal = 1>>["head"("m.py":7:0)])
// SUM: optimus.add {{.*}} loc(fused<#optimus.origin<phase = backward, part = "microbatches">>["wte.weight"("m.py":1:0)])
// SUM-LABEL: func.func @update(
// SUM: optimus.adamw {{.*}} loc(fused<#optimus.origin<phase = optimizer>>["wte.weight"("m.py":1:0)])
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "wte.weight", optimus.role = "table vocabulary,hidden"} loc("wte.weight"("m.py":1:0)),
    %w: tensor<16x16xf32> {optimus.param = "w", optimus.role = "weight"},
    %b: tensor<16xf32> {optimus.param = "b", optimus.role = "bias"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32> loc("wte"("m.py":3:0))
  %y = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("mlp.up"("m.py":4:0))
  %z = optimus.add %y, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32> loc("mlp.bias"("m.py":4:0))
  %g = optimus.gelu %z : tensor<8x16xf32> loc("mlp.gelu"("m.py":5:0))
  %d = optimus.matmul %g, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("mlp.down"("m.py":6:0))
  %s = optimus.add %d, %x : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("mlp.sum"("m.py":8:0))
  %h = optimus.add %s, %x : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("mlp.sum"("m.py":8:0))
  %loss, %count = optimus.head_loss %h, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>) loc("head"("m.py":7:0))
  return %loss, %count : tensor<f32>, tensor<f32>
}
