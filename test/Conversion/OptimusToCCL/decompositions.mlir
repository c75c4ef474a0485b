// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --optimus-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:1 strategy=summa' --optimus-partition --mlir-print-local-scope | FileCheck %s --check-prefix=ROWS

// The moments of each part, side by side in rank order; the second of the two
// parts of a padded row of 5 has 2 real elements.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: %[[M:.*]] = optimus.row_moments %arg0 : {{.*}} -> tensor<2x8x2xf32, #ccl.local<[4, 8, 4], <@mesh, [{"row"}, {}, {"col"}]>>>
// CHECK: %[[A:.*]] = ccl.all_gather %[[M]] {axis = "col", dim = 2 : i64}
// CHECK: %[[MEAN:.*]], %[[RSTD:.*]] = optimus.merge_moments %[[A]] {counts = array<i64: 3, 2>
// CHECK: optimus.normalize %arg0, %[[MEAN]], %[[RSTD]], %arg1, %arg1
// CHECK: %dgamma, %dbeta = optimus.norm_param_grad
// CHECK-SAME: unreduced = {"row"}
// CHECK: %[[S:.*]] = optimus.norm_grad_sums
// CHECK: %[[T:.*]] = ccl.all_reduce %[[S]] {axis = "col"}
// CHECK: optimus.norm_grad_apply {{.*}} %[[T]] {size = 5 : i64}
// CHECK: ccl.all_reduce %dgamma {axis = "row"}
// Rows that are whole and unpadded need no decomposition.
// ROWS-LABEL: func.func @layer_norm(
// ROWS: optimus.layer_norm
// ROWS: %[[DX:.*]], %[[DG:.*]], %[[DB:.*]] = optimus.layer_norm_grad
// ROWS: ccl.all_reduce %[[DG]] {axis = "row"}
func.func @layer_norm(%x: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<5xf32> {optimus.role = "vector hidden"}, %dy: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"})
    -> (tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<5xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<4x8x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %r, %g : (tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<5xf32>, tensor<5xf32>)
  return %y, %dx, %dg : tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<5xf32>
}

// One all-reduce of a number a row, forward and backward; the size of the row is
// the true one. Rows that are whole and unpadded need no decomposition.
// CHECK-LABEL: func.func @rms_norm(
// CHECK: %[[P:.*]] = optimus.row_dot %arg0, %arg0 : {{.*}} -> tensor<2x8xf32, #ccl.local<[4, 8], <@mesh, [{"row"}, {}], unreduced = {"col"}>>>
// CHECK: %[[A:.*]] = ccl.all_reduce %[[P]] {axis = "col"}
// CHECK: %[[RSTD:.*]] = optimus.rms_rstd %[[A]] {epsilon = {{[^ ]*}} : f64, size = 5 : i64}
// CHECK: optimus.rms_scale %arg0, %[[RSTD]], %arg1
// CHECK: %[[S:.*]] = optimus.row_dot %arg2, %arg0 weight(%arg1)
// CHECK: %[[T:.*]] = ccl.all_reduce %[[S]] {axis = "col"}
// CHECK: %[[DX:.*]], %[[DG:.*]] = optimus.rms_norm_grad %arg2, %arg0, %[[RSTD]], %arg1 sums(%[[T]]) {size = 5 : i64}
// CHECK-SAME: unreduced = {"row"}
// CHECK: ccl.all_reduce %[[DG]] {axis = "row"}
// ROWS-LABEL: func.func @rms_norm(
// ROWS: optimus.rms_norm %arg0
// ROWS: %[[DX:.*]], %[[DG:.*]] = optimus.rms_norm_grad %arg2, %arg0, %{{.*}}, %arg1 :
// ROWS: ccl.all_reduce %[[DG]] {axis = "row"}
func.func @rms_norm(%x: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<5xf32> {optimus.role = "vector hidden"}, %dy: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"})
    -> (tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<5xf32>) {
  %y, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<4x8x5xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<4x8xf32>)
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %r, %g : (tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<4x8xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<5xf32>)
  return %y, %dx, %dg : tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<5xf32>
}

// The table is gathered over `row` once, for the look-up and for the head. The
// gradients of both are added where they lie, and summed over `row` once.
// CHECK-LABEL: func.func @tied(
// CHECK: %[[T:.*]] = ccl.all_gather %arg0 {axis = "row", dim = 1 : i64}
// CHECK: %[[E:.*]] = optimus.embedding %[[T]], %arg1 {{.*}} unreduced = {"col"}>>>
// CHECK: %[[X:.*]] = ccl.reduce_scatter %[[E]] {axis = "col", dim = 2 : i64}
// CHECK: %loss_sum, %real_count, %dh, %dtable = ccl.head_loss_grad %[[X]], %[[T]], %arg2 {axis = "col", chunk = 512 : i64}
// CHECK-SAME: unreduced = {"row"}
// CHECK: %[[DY:.*]] = ccl.all_gather %dh {axis = "col", dim = 2 : i64}
// CHECK: %[[DE:.*]] = optimus.embedding_grad %[[DY]], %arg1 accumulate(%dtable) {{{.*}}, pad = 9 : i64}
// CHECK: %[[L:.*]] = ccl.all_reduce %loss_sum {axis = "row"}
// CHECK: %[[R:.*]] = ccl.reduce_scatter %[[DE]] {axis = "row", dim = 1 : i64}
// CHECK: return %[[L]], %[[R]]
// ROWS-LABEL: func.func @tied(
// ROWS: optimus.head_loss_grad
func.func @tied(%table: tensor<10x16xf32> {optimus.role = "table vocabulary,hidden"}, %tokens: tensor<4x8xi32>, %targets: tensor<4x8xi32>) -> (tensor<f32>, tensor<10x16xf32>) {
  %x = optimus.embedding %table, %tokens {pad = 9 : i64, optimus.role = "batch,sequence,hidden"} : (tensor<10x16xf32>, tensor<4x8xi32>) -> tensor<4x8x16xf32>
  %loss, %count, %dx, %dt = optimus.head_loss_grad %x, %table, %targets : (tensor<4x8x16xf32>, tensor<10x16xf32>, tensor<4x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<4x8x16xf32>, tensor<10x16xf32>)
  %d = optimus.embedding_grad %dx, %tokens accumulate(%dt) {pad = 9 : i64, optimus.role = "table vocabulary,hidden"} : (tensor<4x8x16xf32>, tensor<4x8xi32>, tensor<10x16xf32>) -> tensor<10x16xf32>
  return %loss, %d : tensor<f32>, tensor<10x16xf32>
}

// A complete value is added after the sum, not once for each partial sum.
// CHECK-LABEL: func.func @complete_accumulator(
// CHECK: %[[G:.*]] = optimus.embedding_grad %{{.*}}, %arg2 :
// CHECK: %[[S:.*]] = ccl.reduce_scatter %[[G]] {axis = "row", dim = 1 : i64}
// CHECK: optimus.add %arg0, %[[S]]
func.func @complete_accumulator(%known: tensor<10x16xf32> {optimus.role = "table vocabulary,hidden"}, %dy: tensor<4x8x16xf32> {optimus.role = "batch,sequence,hidden"}, %tokens: tensor<4x8xi32>) -> tensor<10x16xf32> {
  %d = optimus.embedding_grad %dy, %tokens accumulate(%known) {optimus.role = "table vocabulary,hidden"} : (tensor<4x8x16xf32>, tensor<4x8xi32>, tensor<10x16xf32>) -> tensor<10x16xf32>
  return %d : tensor<10x16xf32>
}

// Tensors sharded alike are summed together; each scalar is reduced over the axes
// that shard what it sums.
// CHECK-LABEL: func.func @global_norm(
// CHECK-DAG: %[[WHOLE:.*]] = optimus.sum_squares %arg3 : (tensor<3xf32>) -> tensor<f32>
// CHECK-DAG: %[[COL:.*]] = optimus.sum_squares %arg1, %arg2 : {{.*}} unreduced = {"col"}
// CHECK-DAG: %[[BOTH:.*]] = optimus.sum_squares %arg0 : {{.*}} unreduced = {"col", "row"}
// CHECK: %[[B1:.*]] = ccl.all_reduce %[[BOTH]] {axis = "row"}
// CHECK: %[[B2:.*]] = optimus.add %{{.*}}, %{{.*}} : {{.*}} unreduced = {"col"}
// CHECK: %[[B3:.*]] = ccl.all_reduce %[[B2]] {axis = "col"}
// CHECK: %[[SUM:.*]] = optimus.add %[[WHOLE]], %[[B3]]
// CHECK: optimus.sqrt %[[SUM]]
func.func @global_norm(%a: tensor<8x8xf32> {optimus.role = "first in.hidden,out.ffn"}, %b: tensor<8xf32> {optimus.role = "vector hidden"}, %c: tensor<8xf32> {optimus.role = "vector hidden"}, %d: tensor<3xf32>) -> tensor<f32> {
  %n = optimus.global_norm %a, %b, %c, %d : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<3xf32>) -> tensor<f32>
  return %n : tensor<f32>
}

// A whole row that is padded has moments of its real elements only: the class
// of x's rows is that of w's, which 2 ranks shard.
// ROWS-LABEL: func.func @padded_row(
// ROWS: %[[M:.*]] = optimus.row_moments %arg0 : (tensor<2x8x6xf32, #ccl.local<[4, 8, 5]{{.*}} -> tensor<2x8x2xf32
// ROWS: optimus.merge_moments %[[M]] {counts = array<i64: 5>
// ROWS: %[[S:.*]] = optimus.norm_grad_sums
// ROWS: optimus.norm_grad_apply {{.*}} %[[S]] {size = 5 : i64}
func.func @padded_row(%x: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<5xf32> {optimus.role = "vector hidden"}, %w: tensor<5x4xf32> {optimus.role = "first in.hidden,out.ffn"})
    -> (tensor<4x8x4xf32>, tensor<4x8x5xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<4x8x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %z = optimus.matmul %y, %w : (tensor<4x8x5xf32>, tensor<5x4xf32>) -> tensor<4x8x4xf32>
  %dx, %dg, %db = optimus.layer_norm_grad %x, %x, %m, %r, %g : (tensor<4x8x5xf32>, tensor<4x8x5xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> (tensor<4x8x5xf32>, tensor<5xf32>, tensor<5xf32>)
  return %z, %dx : tensor<4x8x4xf32>, tensor<4x8x5xf32>
}
