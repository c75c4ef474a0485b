// RUN: %optimus-opt %s | FileCheck %s
// RUN: %optimus-opt %s --mlir-print-op-generic | %optimus-opt | FileCheck %s

// The element types that operations combine, in alphabetical order. What is
// not narrow here must be f32: see errors-element-types.mlir.

// CHECK-LABEL: func.func @adamw
// CHECK: optimus.adamw %{{.*}} : (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>,
func.func @adamw(%p: tensor<4xf32>, %g: tensor<4xbf16>, %s: tensor<f32>) -> tensor<4xf32> {
  %0:3 = optimus.adamw %p, %g, %p, %p, %s, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %0#0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @add
// CHECK: optimus.add %{{.*}} : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x4xbf16>
// CHECK-NEXT: optimus.add %{{.*}} : (tensor<8x4xbf16>, tensor<4xf32>) -> tensor<8x4xbf16>
func.func @add(%x: tensor<8x4xbf16>, %b: tensor<4xf32>) -> tensor<8x4xbf16> {
  %0 = optimus.add %x, %x : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %1 = optimus.add %0, %b : (tensor<8x4xbf16>, tensor<4xf32>) -> tensor<8x4xbf16>
  return %1 : tensor<8x4xbf16>
}

// CHECK-LABEL: func.func @attention
// CHECK: optimus.attention %{{.*}} : (tensor<2x8x3x4x16xbf16>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>)
// CHECK: optimus.attention_grad %{{.*}} : (tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xbf16>) -> tensor<2x8x3x4x16xbf16>
func.func @attention(%qkv: tensor<2x8x3x4x16xbf16>) -> tensor<2x8x3x4x16xbf16> {
  %0, %1 = optimus.attention %qkv : (tensor<2x8x3x4x16xbf16>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>)
  %2 = optimus.attention_grad %0, %0, %1, %qkv : (tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xbf16>) -> tensor<2x8x3x4x16xbf16>
  return %2 : tensor<2x8x3x4x16xbf16>
}

// CHECK-LABEL: func.func @dropout
// CHECK: optimus.dropout %{{.*}} : (tensor<2x8xf16>, tensor<5xi32>) -> tensor<2x8xf16>
func.func @dropout(%x: tensor<2x8xf16>, %random: tensor<5xi32>) -> tensor<2x8xf16> {
  %0 = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 10 : i64} : (tensor<2x8xf16>, tensor<5xi32>) -> tensor<2x8xf16>
  return %0 : tensor<2x8xf16>
}

// CHECK-LABEL: func.func @elementwise
// CHECK: optimus.gelu %{{.*}} : tensor<8xbf16>
// CHECK: optimus.gelu_with_slope %{{.*}} : tensor<8xbf16>
// CHECK: optimus.swiglu %{{.*}} : tensor<8xf16>
// CHECK: optimus.reshard %{{.*}} : tensor<8xf16>
// CHECK: optimus.sum_leading %{{.*}} : (tensor<8xbf16>) -> tensor<f32>
func.func @elementwise(%x: tensor<8xbf16>, %y: tensor<8xf16>) -> tensor<f32> {
  %0 = optimus.gelu %x : tensor<8xbf16>
  %1, %2 = optimus.gelu_with_slope %0 : tensor<8xbf16>
  %3 = optimus.swiglu %y, %y : tensor<8xf16>
  %4 = optimus.reshard %3 : tensor<8xf16>
  %5 = optimus.sum_leading %1 : (tensor<8xbf16>) -> tensor<f32>
  return %5 : tensor<f32>
}

// Rows of a narrow table, or rounded rows of one that is not; its gradient is
// summed in f32.
// CHECK-LABEL: func.func @embedding
// CHECK: optimus.embedding %{{.*}} : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xbf16>
// CHECK: optimus.embedding %{{.*}} : (tensor<256x16xf16>, tensor<2x8xi32>) -> tensor<2x8x16xf16>
// CHECK: optimus.embedding_grad %{{.*}} : (tensor<2x8x16xbf16>, tensor<2x8xi32>) -> tensor<256x16xf32>
func.func @embedding(%table: tensor<256x16xf32>, %narrow: tensor<256x16xf16>, %tokens: tensor<2x8xi32>) -> tensor<256x16xf32> {
  %0 = optimus.embedding %table, %tokens : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xbf16>
  %1 = optimus.embedding %narrow, %tokens : (tensor<256x16xf16>, tensor<2x8xi32>) -> tensor<2x8x16xf16>
  %2 = optimus.embedding_grad %0, %tokens : (tensor<2x8x16xbf16>, tensor<2x8xi32>) -> tensor<256x16xf32>
  return %2 : tensor<256x16xf32>
}

// Logits are f32, whatever their factors are.
// CHECK-LABEL: func.func @head
// CHECK: optimus.head %{{.*}} bias(%{{.*}}) : (tensor<8x16xbf16>, tensor<64x16xbf16>, tensor<64xf32>) -> tensor<8x64xf32>
func.func @head(%h: tensor<8x16xbf16>, %table: tensor<64x16xbf16>, %bias: tensor<64xf32>) -> tensor<8x64xf32> {
  %0 = optimus.head %h, %table bias(%bias) : (tensor<8x16xbf16>, tensor<64x16xbf16>, tensor<64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @head_loss_grad
// CHECK: optimus.head_loss_grad %{{.*}} bias(%{{.*}}) : (tensor<8x16xbf16>, tensor<64x16xbf16>, tensor<8xi32>, tensor<64xf32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xbf16>, tensor<64x16xf32>, tensor<64xf32>)
func.func @head_loss_grad(%h: tensor<8x16xbf16>, %table: tensor<64x16xbf16>, %bias: tensor<64xf32>, %targets: tensor<8xi32>) -> tensor<64x16xf32> {
  %0:5 = optimus.head_loss_grad %h, %table, %targets bias(%bias) : (tensor<8x16xbf16>, tensor<64x16xbf16>, tensor<8xi32>, tensor<64xf32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xbf16>, tensor<64x16xf32>, tensor<64xf32>)
  return %0#3 : tensor<64x16xf32>
}

// A product of narrow factors is narrow or f32; what it takes in is as it is, or
// f32.
// CHECK-LABEL: func.func @matmul
// CHECK: optimus.matmul %{{.*}}, %{{.*}} : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xf32>
// CHECK: optimus.matmul %{{.*}} bias(%{{.*}}) residual(%{{.*}}) scale(%{{.*}}) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xf32>, tensor<8x6xf32>, tensor<8x6xbf16>) -> tensor<8x6xbf16>
func.func @matmul(%x: tensor<8x4xbf16>, %w: tensor<4x6xbf16>, %b: tensor<6xf32>, %s: tensor<8x6xbf16>) -> tensor<8x6xbf16> {
  %0 = optimus.matmul %x, %w : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xf32>
  %1 = optimus.matmul %x, %w bias(%b) residual(%0) scale(%s) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xf32>, tensor<8x6xf32>, tensor<8x6xbf16>) -> tensor<8x6xbf16>
  return %1 : tensor<8x6xbf16>
}

// x may be wider than what is made of it; statistics are f32.
// CHECK-LABEL: func.func @norms
// CHECK: optimus.layer_norm %{{.*}} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<8xf32>, tensor<8xf32>)
// CHECK: optimus.layer_norm_grad %{{.*}} : (tensor<8x16xbf16>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
// CHECK: optimus.rms_norm %{{.*}} : (tensor<8x16xbf16>, tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<8xf32>)
// CHECK: optimus.row_dot %{{.*}} : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8xf32>
func.func @norms(%x: tensor<8x16xf32>, %g: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
  %y, %mean, %rstd = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<8xf32>, tensor<8xf32>)
  %dx:3 = optimus.layer_norm_grad %y, %x, %mean, %rstd, %g : (tensor<8x16xbf16>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  %z, %rms = optimus.rms_norm %y, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xbf16>, tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<8xf32>)
  %dot = optimus.row_dot %z, %z : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8xf32>
  return %dx#0, %dot : tensor<8x16xf32>, tensor<8xf32>
}
