// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=layer}))' | FileCheck %s --check-prefixes=CHECK,LAYER
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=attention}))' | FileCheck %s --check-prefixes=CHECK,ATTENTION

// What is kept does not depend on how small it is beside a cut of full width:
// that of a value sharded eight ways is an eighth of it.

optimus.mesh @mesh <["row" = 1, "col" = 8]>

#partial = #ccl.local<[4, 64], #optimus.sharding<@mesh, [{}, {} ], unreduced = {"col"}>>
#x = #ccl.local<[4, 64], #optimus.sharding<@mesh, [{}, {"col"} ]>>
#moments = #ccl.local<[4, 16], #optimus.sharding<@mesh, [{}, {"col"} ]>>
#w = #ccl.local<[64, 64], #optimus.sharding<@mesh, [{"col"}, {} ]>>

// The sharded part of the look-up is the cut, not its partial sums of full
// width; the norm's statistics are kept, without the gathered moments of all
// parts. A whole weight that only the forward has is gathered again.
// CHECK-LABEL: func.func @grad_step
// CHECK: optimus.embedding
// CHECK: %[[X0:.*]] = ccl.reduce_scatter
// CHECK: %[[MEAN:.*]], %[[RSTD:.*]] = optimus.merge_moments
// CHECK: %[[Y:.*]] = optimus.normalize %[[X0]], %[[MEAN]], %[[RSTD]]
// CHECK: %[[W:.*]] = ccl.all_gather %arg2
// CHECK: optimus.matmul %{{.*}}, %[[W]]
// CHECK: optimus.add
// CHECK: optimus.head_loss_grad
// CHECK-NOT: merge_moments
// CHECK-NOT: reduce_scatter
func.func @grad_step(%table: tensor<32x64xf32>, %vector: tensor<8xf32>, %w: tensor<8x64xf32, #w>, %narrow: tensor<8x8xf32>, %tokens: tensor<4xi32>, %targets: tensor<4xi32>)
    -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<8x8xf32>, tensor<4x8xf32, #x>, tensor<8xf32>) {
  %e = optimus.embedding %table, %tokens : (tensor<32x64xf32>, tensor<4xi32>) -> tensor<4x64xf32, #partial>
  %x0 = ccl.reduce_scatter %e {axis = "col", dim = 1 : i64} : (tensor<4x64xf32, #partial>) -> tensor<4x8xf32, #x>
  %part = optimus.row_moments %x0 : (tensor<4x8xf32, #x>) -> tensor<4x2xf32, #moments>
  %moments = ccl.all_gather %part {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #moments>) -> tensor<4x16xf32>
  %mean, %rstd = optimus.merge_moments %moments {counts = array<i64: 8, 8, 8, 8, 8, 8, 8, 8>, epsilon = 1.0e-5 : f64} : (tensor<4x16xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %y = optimus.normalize %x0, %mean, %rstd, %vector, %vector : (tensor<4x8xf32, #x>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32, #x>
  %whole = ccl.all_gather %w {axis = "col", dim = 0 : i64} : (tensor<8x64xf32, #w>) -> tensor<64x64xf32>
  %row = ccl.all_gather %y {axis = "col", dim = 1 : i64} : (tensor<4x8xf32, #x>) -> tensor<4x64xf32>
  %0 = optimus.matmul %row, %whole : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1, %slope = optimus.gelu_with_slope %0 : tensor<4x64xf32>
  %2 = ccl.slice %1 {axis = "col", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x8xf32, #x>
  %3 = optimus.matmul %2, %narrow : (tensor<4x8xf32, #x>, tensor<8x8xf32>) -> tensor<4x8xf32, #x>
  %x1 = optimus.add %3, %x0 : (tensor<4x8xf32, #x>, tensor<4x8xf32, #x>) -> tensor<4x8xf32, #x>
  %h = ccl.all_gather %x1 {axis = "col", dim = 1 : i64} : (tensor<4x8xf32, #x>) -> tensor<4x64xf32>
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets : (tensor<4x64xf32>, tensor<32x64xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4x64xf32>, tensor<32x64xf32>)
  %dx = ccl.slice %dh {axis = "col", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x8xf32, #x>
  // The operand of the product is recomputed; the mean and the cut are at hand.
  // LAYER: %[[AGAIN:.*]] = optimus.normalize %[[X0]], %[[MEAN]], %[[RSTD]], {{.*}} {optimus.recomputed}
  // LAYER: %[[FULL:.*]] = ccl.all_gather %[[AGAIN]] {{.*}}optimus.recomputed
  // LAYER: %[[WHOLE:.*]] = ccl.all_gather %arg2 {{.*}}optimus.recomputed
  // LAYER: %[[UPS:.*]] = optimus.matmul %[[FULL]], %[[WHOLE]] {optimus.recomputed}
  // LAYER: optimus.gelu_with_slope %[[UPS]] {optimus.recomputed}
  // Neither products nor collectives run again, but all that is cheap.
  // ATTENTION-NOT: {{(matmul|gather).*}}optimus.recomputed
  // ATTENTION: optimus.normalize %[[X0]], %[[MEAN]], %[[RSTD]], {{.*}} {optimus.recomputed}
  // CHECK-NOT: merge_moments
  // CHECK: return
  %dnarrow = optimus.matmul %2, %dx {transpose_a} : (tensor<4x8xf32, #x>, tensor<4x8xf32, #x>) -> tensor<8x8xf32>
  %sum = optimus.mul %dh, %slope : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %part1 = ccl.slice %sum {axis = "col", dim = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x8xf32, #x>
  %d = optimus.mul %part1, %y : (tensor<4x8xf32, #x>, tensor<4x8xf32, #x>) -> tensor<4x8xf32, #x>
  %dgamma, %dbeta = optimus.norm_param_grad %d, %x0, %mean, %rstd : (tensor<4x8xf32, #x>, tensor<4x8xf32, #x>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %loss, %dnarrow, %d, %dgamma : tensor<f32>, tensor<8x8xf32>, tensor<4x8xf32, #x>, tensor<8xf32>
}
