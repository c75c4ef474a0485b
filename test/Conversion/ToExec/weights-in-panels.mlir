// RUN: optimus-opt %s --split-input-file --optimus-to-exec="target=cpu" | FileCheck %s
// RUN: not optimus-opt %s --split-input-file --optimus-to-exec="target=cpu weights=bf16" 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: optimus-opt %s --split-input-file --optimus-to-exec="target=cuda" | FileCheck %s --check-prefix=CUDA

// NAMED: weights: expected activations, int8 or int4, found 'bf16'
// CUDA-NOT: blocks

// Functions that generate text read what is rounded to bf16 as panels of it: of 33 rows
// and 65 columns, 64 rows and two panels.

// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[W:[a-z0-9]+]]: memref<2145xf32> {{{[^}]*}}optimus.param = "w"
// CHECK: %[[B:.*]] = exec.alloc "packed weight" {{.*}} : memref<4096xi32>
// CHECK: exec.pack %[[W]] into %[[B]] {blocks = #exec<blocks bf16>, cols = 65 : i64, {{.*}}ld = 65 : i64, rows = 33 : i64}
// CHECK-NOT: exec.launch
// CHECK: exec.gemm %{{.*}}, %[[B]], {{.*}}blocks = #exec<blocks bf16>, {{.*}}ldb = 4096 : i64, {{.*}}packed_b} : memref<99xbf16>, memref<4096xi32>
func.func @decode(%w: tensor<33x65xf32> {optimus.param = "w"}, %x: tensor<3x33xbf16>) -> tensor<3x65xf32>
    attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
  %n = optimus.cast %w : (tensor<33x65xf32>) -> tensor<33x65xbf16>
  %0 = optimus.matmul %x, %n : (tensor<3x33xbf16>, tensor<33x65xbf16>) -> tensor<3x65xf32>
  return %0 : tensor<3x65xf32>
}

// A function that does not generate rounds for itself.
// CHECK-LABEL: func.func @forward(
// CHECK: exec.launch @cast
// CHECK-NOT: blocks
// CHECK: return
func.func @forward(%w: tensor<33x65xf32> {optimus.param = "w"}, %x: tensor<3x33xbf16>) -> tensor<3x65xf32>
    attributes {optimus.entry = #optimus.entry<forward, batch = 3, sequence = 1>} {
  %n = optimus.cast %w : (tensor<33x65xf32>) -> tensor<33x65xbf16>
  %0 = optimus.matmul %x, %n : (tensor<3x33xbf16>, tensor<33x65xbf16>) -> tensor<3x65xf32>
  return %0 : tensor<3x65xf32>
}

// -----

// Where one function reads the rounded weight otherwise, as ranks do that move it, all
// read that one: weights lie once.

// CHECK-LABEL: func.func @decode(
// CHECK: exec.launch @cast
// CHECK-NOT: blocks
// CHECK-LABEL: func.func @prefill(
// CHECK: exec.launch @cast
// CHECK-NOT: blocks
func.func @decode(%w: tensor<32x64xf32> {optimus.param = "w"}, %x: tensor<3x32xbf16>) -> tensor<3x64xf32>
    attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
  %n = optimus.cast %w : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %0 = optimus.matmul %x, %n : (tensor<3x32xbf16>, tensor<32x64xbf16>) -> tensor<3x64xf32>
  return %0 : tensor<3x64xf32>
}
func.func @prefill(%w: tensor<32x64xf32> {optimus.param = "w"}) -> tensor<32x64xbf16>
    attributes {optimus.entry = #optimus.entry<prefill, batch = 1, sequence = 32>} {
  %n = optimus.cast %w : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %0 = optimus.gelu %n : tensor<32x64xbf16>
  return %0 : tensor<32x64xbf16>
}
