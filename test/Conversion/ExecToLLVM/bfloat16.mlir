// RUN: %optimus-opt %s --pass-pipeline='builtin.module(optimus-to-exec,optimus-build-kernels,func.func(optimus-place-buffers,optimus-order-commands),optimus-exec-to-llvm)' > %t
// RUN: FileCheck %s < %t
// RUN: not grep -E 'llvm\.(store|load|fptrunc|fpext) .*bf16' %t

// A model library imports no function that converts bf16. LLVM has conversions by
// integers only, and moves no vector of bf16: one of 11 lanes it would take
// through f32.
// CHECK: llvm.func internal @cast_f32_to_bf16_43(
// CHECK: llvm.store %{{.*}} : vector<16xi16>
// CHECK: llvm.store %{{.*}} : vector<11xi16>
// CHECK: llvm.func internal @gelu_bf16_43(
// CHECK: llvm.load %{{.*}} -> vector<11xi16>

module attributes {exec.manifest = "{}"} {
func.func @f(%x: tensor<43xf32>) -> tensor<43xbf16> {
  %y = optimus.cast %x : (tensor<43xf32>) -> tensor<43xbf16>
  %z = optimus.gelu %y : tensor<43xbf16>
  return %z : tensor<43xbf16>
}
}
