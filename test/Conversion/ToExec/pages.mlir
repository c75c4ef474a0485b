// RUN: optimus-opt %s --optimus-to-exec=target=cpu --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: optimus-opt %s --optimus-to-exec=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA

// Rows go to pages by a table, and attention reads these where they lie; those of a
// chunk's slot are put in order.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: memref<1024xf32>
// CHECK-NOT: exec.copy
// CHECK: exec.launch @cache_append_pages3_2x1_64x8{{.*}}(read %{{.*}} : memref<16xf32>, read %{{.*}} : memref<2xi32>, read %{{.*}} : memref<6xi32>, update %[[CACHE]] : memref<1024xf32>)
// CPU: exec.attention %{{.*}}, %[[CACHE]], %[[CACHE]], {{.*}} pages(%{{.*}} : memref<6xi32>) {{{.*}}capacity = 192 : i64{{.*}}pool = 2 : i64
// CUDA: exec.launch @attention_pieces_causal_lengths_positions_capacity192_pool2_{{.*}}read %{{.*}} : memref<6xi32>, write
// CUDA: exec.launch @attention_of_pieces_causal_lengths_positions_capacity192_pool2_
func.func @decode(%c: tensor<2x64x2x4xf32> {optimus.donates = 1 : i64}, %x: tensor<2x1x2x4xf32>, %l: tensor<2xi32>, %p: tensor<2x1xi32>, %t: tensor<2x3xi32>) -> (tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>) {
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<2x64x2x4xf32>, tensor<2x1x2x4xf32>, tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x64x2x4xf32>
  %y, %lse = optimus.attention %x, %0, %0 lengths(%l) positions(%p) pages(%t) {cached, causal, window = 192 : i64} : (tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2xi32>, tensor<2x1xi32>, tensor<2x3xi32>) -> (tensor<2x1x2x4xf32>, tensor<2x2x1xf32>)
  return %y, %0 : tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>
}

// CHECK-LABEL: func.func @prefill(
// CHECK: exec.launch @slot_append_pages3_5_2x64_8
// CHECK: exec.launch @take_length_share64_2_192x8
func.func @prefill(%c: tensor<2x64x2x4xf32> {optimus.donates = 1 : i64}, %x: tensor<5x1x2x4xf32>, %p: tensor<5x1xi32>, %s: tensor<1xi32>, %n: tensor<1xi32>, %t: tensor<2x3xi32>) -> (tensor<1x192x2x4xf32>, tensor<2x64x2x4xf32>) {
  %0 = optimus.cache_append %c, %x, %p slot(%s) pages(%t) : (tensor<2x64x2x4xf32>, tensor<5x1x2x4xf32>, tensor<5x1xi32>, tensor<1xi32>, tensor<2x3xi32>) -> tensor<2x64x2x4xf32>
  %k = optimus.take %0, %s length(%n) pages(%t) : (tensor<2x64x2x4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<2x3xi32>) -> tensor<1x192x2x4xf32>
  return %k, %0 : tensor<1x192x2x4xf32>, tensor<2x64x2x4xf32>
}
