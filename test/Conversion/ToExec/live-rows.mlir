// RUN: optimus-opt %s --optimus-to-exec=target=cpu | FileCheck %s

// A product with a row for each slot may leave out rows without a token, whatever is
// done to rows one by one. One whose rows are mixed later computes all.

// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[POSITIONS:[a-z0-9]+]]: memref<3xi32> {{{[^}]*}}role = "decode_positions"
// CHECK: exec.gemm {{.*}} live(%[[POSITIONS]] : memref<3xi32>) {{.*}}k = 8 : i64{{.*}}m = 3 : i64, n = 16
// CHECK: exec.gemm {{.*}} live(%[[POSITIONS]] : memref<3xi32>) {{.*}}k = 16 : i64{{.*}}m = 3 : i64, n = 8
// CHECK: exec.gemm
// CHECK-NOT: live
// CHECK-SAME: n = 4
// CHECK: return
func.func @decode(
    %w: tensor<8x16xf32>, %v: tensor<16x8xf32>, %u: tensor<8x4xf32>, %table: tensor<11x8xf32>,
    %tokens: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_tokens", lifetime = call, filled_by = host>},
    %positions: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "decode_positions", lifetime = call, filled_by = host>})
    -> (tensor<3x1x8xf32>, tensor<4xf32>) attributes {optimus.entry = #optimus.entry<decode, batch = 3, sequence = 1>} {
  %x = optimus.embedding %table, %tokens : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
  %0 = optimus.matmul %x, %w : (tensor<3x1x8xf32>, tensor<8x16xf32>) -> tensor<3x1x16xf32>
  %1 = optimus.gelu %0 : tensor<3x1x16xf32>
  %2 = optimus.matmul %1, %v : (tensor<3x1x16xf32>, tensor<16x8xf32>) -> tensor<3x1x8xf32>
  %y = optimus.embedding %table, %positions : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
  %3 = optimus.matmul %y, %u : (tensor<3x1x8xf32>, tensor<8x4xf32>) -> tensor<3x1x4xf32>
  %4 = optimus.sum_leading %3 : (tensor<3x1x4xf32>) -> tensor<4xf32>
  return %2, %4 : tensor<3x1x8xf32>, tensor<4xf32>
}

// So may one with a row for each token of a chunk, whose keys go to a cache that drops
// rows without one; and the logits behind a token are computed where its index is asked
// for. What all rows go to is computed of all.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: %[[POSITIONS:[a-z0-9]+]]: memref<3xi32> {{{[^}]*}}role = "prefill_positions"
// CHECK-SAME: %[[LAST:[a-z0-9]+]]: memref<1xi32> {{{[^}]*}}role = "prefill_last"
// CHECK: exec.gemm {{.*}} live(%[[POSITIONS]] : memref<3xi32>) {{.*}}m = 3 : i64, n = 16
// CHECK: exec.gemm {{.*}} live(%[[POSITIONS]] : memref<3xi32>) {{.*}}m = 3 : i64, n = 8
// CHECK: exec.gemm
// CHECK-NOT: live
// CHECK-SAME: m = 3 : i64, n = 4
// CHECK: exec.gemm {{.*}} live(%[[LAST]] : memref<1xi32>) {{.*}}m = 1 : i64, n = 11
func.func @prefill(
    %w: tensor<8x16xf32>, %v: tensor<8x8xf32>, %u: tensor<8x4xf32>, %table: tensor<11x8xf32>,
    %tokens: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_tokens", lifetime = call, filled_by = host>},
    %positions: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_positions", lifetime = call, filled_by = host>},
    %places: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "prefill_places", lifetime = call, filled_by = host>},
    %slot: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "prefill_slot", lifetime = call, filled_by = host>},
    %cache: tensor<2x5x16xf32> {optimus.binding = #optimus.buffer<role = "keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64},
    %last: tensor<1xi32> {optimus.binding = #optimus.buffer<role = "prefill_last", lifetime = call, filled_by = host>})
    -> (tensor<1x1x11xf32>, tensor<2x5x16xf32>, tensor<4xf32>) attributes {optimus.entry = #optimus.entry<prefill, batch = 1, sequence = 3>} {
  %x = optimus.embedding %table, %tokens : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
  %k = optimus.matmul %x, %w : (tensor<3x1x8xf32>, tensor<8x16xf32>) -> tensor<3x1x16xf32>
  %filled = optimus.cache_append %cache, %k, %places slot(%slot) : (tensor<2x5x16xf32>, tensor<3x1x16xf32>, tensor<3x1xi32>, tensor<1xi32>) -> tensor<2x5x16xf32>
  %0 = optimus.matmul %x, %v : (tensor<3x1x8xf32>, tensor<8x8xf32>) -> tensor<3x1x8xf32>
  %y = optimus.embedding %table, %positions : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
  %3 = optimus.matmul %y, %u : (tensor<3x1x8xf32>, tensor<8x4xf32>) -> tensor<3x1x4xf32>
  %4 = optimus.sum_leading %3 : (tensor<3x1x4xf32>) -> tensor<4xf32>
  %1 = optimus.take %0, %last : (tensor<3x1x8xf32>, tensor<1xi32>) -> tensor<1x1x8xf32>
  %2 = optimus.head %1, %table : (tensor<1x1x8xf32>, tensor<11x8xf32>) -> tensor<1x1x11xf32>
  return %2, %filled, %4 : tensor<1x1x11xf32>, tensor<2x5x16xf32>, tensor<4xf32>
}

// Nor does another kind of function.
// CHECK-LABEL: func.func @forward(
// CHECK-NOT: live
func.func @forward(
    %w: tensor<8x16xf32>, %table: tensor<11x8xf32>,
    %tokens: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "tokens", lifetime = call, filled_by = data>},
    %positions: tensor<3x1xi32> {optimus.binding = #optimus.buffer<role = "positions", lifetime = call, filled_by = data>})
    -> tensor<3x1x16xf32> attributes {optimus.entry = #optimus.entry<forward, batch = 3, sequence = 1>} {
  %x = optimus.embedding %table, %tokens : (tensor<11x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
  %0 = optimus.matmul %x, %w : (tensor<3x1x8xf32>, tensor<8x16xf32>) -> tensor<3x1x16xf32>
  return %0 : tensor<3x1x16xf32>
}
