// RUN: optimus-opt %s --split-input-file --verify-diagnostics --optimus-to-exec="target=cpu weights=int8" | FileCheck %s

// A function that generates text reads weights as blocks: products, the head and the look-up of
// tokens, these two the same ones. A parameter is not rounded before; what other
// operations read of it is. Positions are looked up as they are.

// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: memref<2048xf32> {{{[^}]*}}optimus.param = "wte"
// CHECK-SAME: %[[W:[a-z0-9]+]]: memref<2048xf32> {{{[^}]*}}optimus.param = "w"
// CHECK: %[[T:.*]] = exec.alloc "packed weight" {{.*}} : memref<544xi32>
// CHECK: exec.pack %[[TABLE]] into %[[T]] {blocks = #exec<blocks int8>, cols = 64 : i64, {{.*}}ld = 32 : i64, rows = 32 : i64, trans}
// CHECK: exec.launch @embedding_of_blocks_3_64x32_8{{.*}}(read %[[T]] : memref<544xi32>
// CHECK: exec.launch @embedding_3_8x32{{.*}}(read %{{[a-z0-9]+}} : memref<256xf32>
// CHECK: %[[B:.*]] = exec.alloc "packed weight" {{.*}} : memref<544xi32>
// CHECK: exec.pack %[[W]] into %[[B]] {blocks = #exec<blocks int8>, cols = 64 : i64, {{.*}}ld = 64 : i64, rows = 32 : i64}
// CHECK-NOT: cast
// CHECK: exec.gemm %{{.*}}, %[[B]], {{.*}}blocks = #exec<blocks int8>, {{.*}}ldb = 544 : i64, {{.*}}packed_b} : memref<96xbf16>, memref<544xi32>
// CHECK: exec.gemm %{{.*}}, %[[T]], {{.*}}ldb = 544 : i64, {{.*}}packed_b} : memref<96xf32>, memref<544xi32>
func.func @decode(
    %table: tensor<64x32xf32> {optimus.param = "wte", optimus.dims = ["vocabulary", "hidden"]},
    %places: tensor<8x32xf32> {optimus.param = "wpe", optimus.dims = ["sequence", "hidden"]},
    %w: tensor<32x64xf32> {optimus.param = "w"},
    %tokens: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_tokens", lifetime = call, filled_by = host>},
    %positions: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_positions", lifetime = call, filled_by = host>})
    -> (tensor<3x1x64xf32>, tensor<3x1x64xf32>) attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
  %x = optimus.embedding %table, %tokens : (tensor<64x32xf32>, tensor<3x1xi32>) -> tensor<3x1x32xf32>
  %p = optimus.embedding %places, %positions : (tensor<8x32xf32>, tensor<3x1xi32>) -> tensor<3x1x32xf32>
  %h = optimus.add %x, %p : (tensor<3x1x32xf32>, tensor<3x1x32xf32>) -> tensor<3x1x32xf32>
  %a = optimus.cast %h : (tensor<3x1x32xf32>) -> tensor<3x1x32xbf16>
  %n = optimus.cast %w : (tensor<32x64xf32>) -> tensor<32x64xbf16>
  %0 = optimus.matmul %a, %n : (tensor<3x1x32xbf16>, tensor<32x64xbf16>) -> tensor<3x1x64xf32>
  %1 = optimus.head %h, %table : (tensor<3x1x32xf32>, tensor<64x32xf32>) -> tensor<3x1x64xf32>
  return %0, %1 : tensor<3x1x64xf32>, tensor<3x1x64xf32>
}

// Another function of the library reads parameters.
// CHECK-LABEL: func.func @forward(
// CHECK-NOT: blocks
// CHECK: return
func.func @forward(%w: tensor<32x64xf32> {optimus.param = "w"}, %x: tensor<3x32xf32>) -> tensor<3x64xf32>
    attributes {optimus.entry = #optimus.entry<forward, batch = 3, sequence = 1>} {
  %0 = optimus.matmul %x, %w : (tensor<3x32xf32>, tensor<32x64xf32>) -> tensor<3x64xf32>
  return %0 : tensor<3x64xf32>
}

// -----

func.func @decode(%w: tensor<48x64xf32> {optimus.param = "w"}, %x: tensor<3x48xf32>) -> tensor<3x64xf32>
    attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
  // expected-error @below {{sums 48 elements on a rank; expected a multiple of 32 with weights of int8}}
  %0 = optimus.matmul %x, %w : (tensor<3x48xf32>, tensor<48x64xf32>) -> tensor<3x64xf32>
  return %0 : tensor<3x64xf32>
}

// -----

// expected-error @below {{has no functions that generate text, and so no weights of int8}}
module {
  func.func @forward(%w: tensor<32x64xf32> {optimus.param = "w"}, %x: tensor<3x32xf32>) -> tensor<3x64xf32>
      attributes {optimus.entry = #optimus.entry<forward, batch = 3, sequence = 1>} {
    %0 = optimus.matmul %x, %w : (tensor<3x32xf32>, tensor<32x64xf32>) -> tensor<3x64xf32>
    return %0 : tensor<3x64xf32>
  }
}
