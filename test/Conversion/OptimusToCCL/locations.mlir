// RUN: %optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --optimus-partition --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// What stands for a result has its location; what is computed on the way is a
// part. A sum over ranks belongs to what made its partial sums, a gather to what
// asks for it.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: optimus.row_moments {{.*}} loc(fused<#optimus.origin<phase = forward, part = "row_moments">>["ln_1"("m.py":2:0)])
// CHECK: ccl.all_gather {{.*}} loc(fused<#optimus.origin<phase = forward, part = "all_gather">>["ln_1"("m.py":2:0)])
// CHECK: optimus.merge_moments {{.*}} loc(fused<#optimus.origin<phase = forward, result = 1>>["ln_1"("m.py":2:0)])
// CHECK: optimus.normalize {{.*}} loc("ln_1"("m.py":2:0))
// CHECK: optimus.norm_param_grad {{.*}} loc(fused<#optimus.origin<phase = backward, result = 1>>["ln_1"("m.py":2:0)])
// CHECK: optimus.norm_grad_sums {{.*}} loc(fused<#optimus.origin<phase = backward, part = "norm_grad_sums">>["ln_1"("m.py":2:0)])
// CHECK: ccl.all_reduce {{.*}} loc(fused<#optimus.origin<phase = backward, part = "all_reduce">>["ln_1"("m.py":2:0)])
// CHECK: optimus.norm_grad_apply {{.*}} loc(fused<#optimus.origin<phase = backward>>["ln_1"("m.py":2:0)])
// CHECK: ccl.all_reduce {{.*}} loc(fused<#optimus.origin<phase = backward, result = 1, part = "all_reduce">>["ln_1"("m.py":2:0)])
func.func @layer_norm(%x: tensor<4x8x6xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<6xf32> {optimus.role = "vector hidden"}, %dy: tensor<4x8x6xf32> {optimus.role = "batch,sequence,hidden"})
    -> (tensor<4x8x6xf32>, tensor<4x8x6xf32>, tensor<6xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<4x8x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x8x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>) loc("ln_1"("m.py":2:0))
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %r, %g : (tensor<4x8x6xf32>, tensor<4x8x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<6xf32>) -> (tensor<4x8x6xf32>, tensor<6xf32>, tensor<6xf32>) loc(fused<#optimus.origin<phase = backward>>["ln_1"("m.py":2:0)])
  return %y, %dx, %dg : tensor<4x8x6xf32>, tensor<4x8x6xf32>, tensor<6xf32>
}

// A reshard that moves is a value of the reshard; a product stays one.
// CHECK-LABEL: func.func @product(
// CHECK: ccl.matmul {{.*}} loc("up"("m.py":3:0))
// CHECK: ccl.all_gather {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "all_gather">>["w"("m.py":4:0)])
// CHECK: ccl.all_gather {{.*}} loc(fused<#optimus.origin<phase = optimizer, part = "gradient">>["w"("m.py":4:0)])
func.func @product(%x: tensor<4x8x6xf32> {optimus.role = "batch,sequence,hidden"}, %w: tensor<6x8xf32> {optimus.role = "first in.hidden,out.ffn"}) -> (tensor<4x8x8xf32>, tensor<6x8xf32>) {
  %y = optimus.matmul %x, %w {optimus.role = "batch,sequence,ffn"} : (tensor<4x8x6xf32>, tensor<6x8xf32>) -> tensor<4x8x8xf32> loc("up"("m.py":3:0))
  %r = optimus.reshard %w {optimus.shardings = [#optimus.sharding<@mesh, [{}, {}]>]} : tensor<6x8xf32> loc(fused<#optimus.origin<phase = optimizer, part = "gradient">>["w"("m.py":4:0)])
  return %y, %r : tensor<4x8x8xf32>, tensor<6x8xf32>
}
