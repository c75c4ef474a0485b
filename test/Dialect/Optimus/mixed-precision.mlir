// RUN: optimus-opt %s --optimus-differentiate --optimus-mixed-precision --verify-roundtrip --split-input-file | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate --optimus-mixed-precision=type=f16 --split-input-file | FileCheck %s --check-prefix=HALF
// RUN: optimus-opt %s --optimus-differentiate --optimus-mixed-precision=gradients=true --split-input-file | FileCheck %s --check-prefix=WEIGHTS
// RUN: optimus-opt %s --optimus-differentiate --split-input-file > %t.f32
// RUN: optimus-opt %s --optimus-differentiate --optimus-mixed-precision=type=f32 --split-input-file | diff - %t.f32
// RUN: not optimus-opt %s --optimus-mixed-precision=type=f8 --split-input-file 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not optimus-opt %s --optimus-mixed-precision --split-input-file 2>&1 | FileCheck %s --check-prefix=GRAD

// UNKNOWN: error: unknown type 'f8'; known are f32, bf16, f16
// GRAD: error: expected a function @grad; run --optimus-differentiate first

// Arguments and results stay f32. Factors of products, the residual stream and
// its gradient are bf16; statistics, the loss and gradients of parameters are f32.
// HALF: tensor<2x8x16xf16>

// The optimizer reads a widened gradient; of a bias it is f32 as it is made.
// WEIGHTS-LABEL: func.func @grad
// WEIGHTS: %[[DBIAS:.*]] = optimus.sum_leading {{.*}} -> tensor<16xf32>
// WEIGHTS: %[[DW:.*]] = optimus.matmul {{.*}}transpose_a} : (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>) -> tensor<16x16xbf16>
// WEIGHTS: %[[WIDE:.*]] = optimus.cast %[[DW]] {{.*}}: (tensor<16x16xbf16>) -> tensor<16x16xf32>
// WEIGHTS: return {{.*}} %[[WIDE]], %[[DBIAS]] :

// CHECK-LABEL: func.func @loss
// CHECK-SAME: %[[TABLE:[^:]*]]: tensor<32x16xf32>
// CHECK-SAME: -> (tensor<f32>, tensor<f32>)
// CHECK: %[[X:.*]] = optimus.embedding %[[TABLE]], {{.*}} : (tensor<32x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xbf16>
// CHECK: optimus.layer_norm %[[X]], {{.*}} : (tensor<2x8x16xbf16>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xbf16>, tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK: %[[NARROW:.*]] = optimus.cast %[[TABLE]] {optimus.role = "table vocabulary,hidden"} : (tensor<32x16xf32>) -> tensor<32x16xbf16>
// CHECK: optimus.head_loss %{{.*}}, %[[NARROW]], {{.*}} -> (tensor<f32>, tensor<f32>)

// CHECK-LABEL: func.func @grad
// CHECK-SAME: %[[TABLE:[^:]*]]: tensor<32x16xf32>
// CHECK-SAME: %[[GAIN:[^:]*]]: tensor<16xf32>
// CHECK-SAME: %[[SHIFT:[^:]*]]: tensor<16xf32>
// CHECK-SAME: %[[W:[^:]*]]: tensor<16x16xf32>
// CHECK-SAME: %[[BIAS:[^:]*]]: tensor<16xf32>
// CHECK-SAME: -> (tensor<f32>, tensor<f32>, tensor<32x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<16xf32>)
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table", optimus.role = "table vocabulary,hidden"},
    %gain: tensor<16xf32> {optimus.param = "gain", optimus.role = "vector hidden"},
    %shift: tensor<16xf32> {optimus.param = "shift", optimus.role = "vector hidden"},
    %w: tensor<16x16xf32> {optimus.param = "w", optimus.role = "w.weight"},
    %bias: tensor<16xf32> {optimus.param = "bias", optimus.role = "w.bias"},
    %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: %[[X:.*]] = optimus.embedding %[[TABLE]]
  // CHECK-SAME: -> tensor<2x8x16xbf16>
  %x = optimus.embedding %table, %tokens {optimus.role = "batch,sequence,hidden"} : (tensor<32x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  // CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = optimus.layer_norm %[[X]], %[[GAIN]], %[[SHIFT]]
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-05 : f64, optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  // CHECK: %[[NW:.*]] = optimus.cast %[[W]] {optimus.role = "w.weight"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  // CHECK: %[[P:.*]] = optimus.matmul %[[Y]], %[[NW]] {{.*}} : (tensor<2x8x16xbf16>, tensor<16x16xbf16>) -> tensor<2x8x16xbf16>
  %p = optimus.matmul %y, %w {optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32>
  // CHECK: optimus.add %[[P]], %[[BIAS]] {{.*}} : (tensor<2x8x16xbf16>, tensor<16xf32>) -> tensor<2x8x16xbf16>
  %q = optimus.add %p, %bias {optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
  // CHECK: optimus.gelu_with_slope {{.*}} : tensor<2x8x16xbf16>
  %g = optimus.gelu %q {optimus.role = "batch,sequence,hidden"} : tensor<2x8x16xf32>
  // CHECK: optimus.head_loss_grad {{.*}} -> (tensor<f32>, tensor<f32>, tensor<2x8x16xbf16>, tensor<32x16xf32>)
  // CHECK: %[[DQ:.*]] = optimus.mul {{.*}} -> tensor<2x8x16xbf16>
  // CHECK: %[[DBIAS:.*]] = optimus.sum_leading %[[DQ]] {{.*}} : (tensor<2x8x16xbf16>) -> tensor<16xf32>
  // The weight is narrowed once.
  // CHECK: %[[DY:.*]] = optimus.matmul %[[DQ]], %[[NW]] {{.*}} -> tensor<2x8x16xbf16>
  // CHECK: %[[DW:.*]] = optimus.matmul %[[Y]], %[[DQ]] {{.*}} : (tensor<2x8x16xbf16>, tensor<2x8x16xbf16>) -> tensor<16x16xf32>
  // CHECK: optimus.layer_norm_grad %[[DY]], %[[X]], %[[MEAN]], %[[RSTD]], %[[GAIN]] {{.*}} -> (tensor<2x8x16xbf16>, tensor<16xf32>, tensor<16xf32>)
  // CHECK: optimus.embedding_grad {{.*}} : (tensor<2x8x16xbf16>, tensor<2x8xi32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  // CHECK-NOT: optimus.cast
  // CHECK: return
  %loss, %count = optimus.head_loss %g, %table, %targets : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// What a reader needs in f32 is made so where it can be: a weight that two
// products share gets a sum of two gradients, all of it f32. And what no reader
// needs in f32 is narrow: a product of two parameters.
// CHECK-LABEL: func.func @grad
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table"},
    %w: tensor<16x16xf32> {optimus.param = "w"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %y = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %z = optimus.matmul %y, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  // CHECK: optimus.head_loss_grad
  // CHECK: %[[FIRST:.*]] = optimus.matmul {{.*}}transpose_a} {{.*}} -> tensor<16x16xf32>
  // CHECK: %[[SECOND:.*]] = optimus.matmul {{.*}}transpose_a} {{.*}} -> tensor<16x16xf32>
  // CHECK: optimus.add %[[FIRST]], %[[SECOND]] {{.*}} -> tensor<16x16xf32>
  %loss, %count = optimus.head_loss %z, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
