// RUN: %optimus-opt %s --optimus-record-function --split-input-file | FileCheck %s
// What is there stays.
// RUN: optimus-opt %s --optimus-record-function --split-input-file -o %t.mlir
// RUN: optimus-opt %t.mlir --optimus-record-function --split-input-file | diff %t.mlir -

// What operations state, once where all say the same.
// CHECK:      module attributes {optimus.function = {
// CHECK-SAME:   facts = {activation = "gelu", head_bias = false, head_dim = 4 : i64, heads = 2 : i64, mask = "causal", norm = "rms_norm", norm_eps = [1.000000e-05, {{[0-9.E-]+}}], padding = "none", qkv = "packed", tied = true}
// CHECK-SAME:   hash = "[[HASH:[0-9a-f]+]]",
// CHECK-SAME:   incidental = {chunk = 512 : i64}
// CHECK-SAME:   version = 1 : i64}}
// CHECK:      @loss
module {
  func.func @loss(%table: tensor<16x8xf32> {optimus.param = "table"}, %w: tensor<8x3x2x4xf32> {optimus.param = "w"}, %g: tensor<8xf32> {optimus.param = "g"},
                  %tokens: tensor<2x8xi32> {optimus.binding = "tokens"}, %targets: tensor<2x8xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
    %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<2x8xi32>) -> tensor<2x8x8xf32>
    %n, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<2x8x8xf32>, tensor<8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8xf32>)
    %qkv = optimus.matmul %n, %w : (tensor<2x8x8xf32>, tensor<8x3x2x4xf32>) -> tensor<2x8x3x2x4xf32>
    %o, %lse = optimus.attention %qkv {causal} : (tensor<2x8x3x2x4xf32>) -> (tensor<2x8x2x4xf32>, tensor<2x2x8xf32>)
    %y = optimus.gelu %n : tensor<2x8x8xf32>
    %m, %s = optimus.rms_norm %y, %g {epsilon = 1.0e-6 : f64} : (tensor<2x8x8xf32>, tensor<8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8xf32>)
    %loss, %count = optimus.head_loss %m, %table, %targets : (tensor<2x8x8xf32>, tensor<16x8xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Another batch and sequence, names, an order, dropout, a narrow product, the
// head's chunk, and no attention, whose result nobody uses: the same hash.
// CHECK:      hash = "[[HASH]]", incidental = {chunk = 4 : i64, dropout = 2.500000e-01 : f64}
// CHECK:      @loss
module {
  func.func @loss(%t: tensor<16x8xf32> {optimus.param = "table"}, %g: tensor<8xf32> {optimus.param = "g"},
                  %in: tensor<4x6xi32> {optimus.binding = "tokens"}, %out: tensor<4x6xi32> {optimus.binding = "targets"}, %random: tensor<5xi32> {optimus.binding = "random"}) -> (tensor<f32>, tensor<f32>) {
    %x = optimus.embedding %t, %in : (tensor<16x8xf32>, tensor<4x6xi32>) -> tensor<4x6x8xf32>
    %n, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<4x6x8xf32>, tensor<8xf32>) -> (tensor<4x6x8xf32>, tensor<4x6xf32>)
    %d = optimus.dropout %n, %random {rate = 0.25 : f64, stream = 16777216 : i64} : (tensor<4x6x8xf32>, tensor<5xi32>) -> tensor<4x6x8xf32>
    %narrow = optimus.cast %d : (tensor<4x6x8xf32>) -> tensor<4x6x8xbf16>
    %y = optimus.gelu %narrow : tensor<4x6x8xbf16>
    %wide = optimus.cast %y : (tensor<4x6x8xbf16>) -> tensor<4x6x8xf32>
    %m, %s = optimus.rms_norm %wide, %g {epsilon = 1.0e-6 : f64} : (tensor<4x6x8xf32>, tensor<8xf32>) -> (tensor<4x6x8xf32>, tensor<4x6xf32>)
    %loss, %count = optimus.head_loss %m, %t, %out {chunk = 4 : i64} : (tensor<4x6x8xf32>, tensor<16x8xf32>, tensor<4x6xi32>) -> (tensor<f32>, tensor<f32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// No loss, no record.
// CHECK-NOT: optimus.function
// CHECK:     @train
module {
  func.func @train(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
