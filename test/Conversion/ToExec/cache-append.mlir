// RUN: optimus-opt %s --optimus-to-exec=target=cpu --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=target=cuda | FileCheck %s

// In the buffer of an argument that donates, only the rows are written.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: memref<64xf32>
// CHECK-NOT: exec.copy
// CHECK: exec.launch @cache_append_2x1_4x8{{.*}}(read %{{.*}} : memref<16xf32>, read %{{.*}} : memref<2xi32>, update %[[CACHE]] : memref<64xf32>)
func.func @in_place(%c: tensor<2x4x2x4xf32> {optimus.donates = 0 : i64}, %x: tensor<2x1x2x4xf32>, %p: tensor<2x1xi32>) -> tensor<2x4x2x4xf32> {
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x2x4xf32>, tensor<2x1x2x4xf32>, tensor<2x1xi32>) -> tensor<2x4x2x4xf32>
  return %0 : tensor<2x4x2x4xf32>
}

// CHECK-LABEL: func.func @elsewhere(
// CHECK: exec.copy
// CHECK: exec.launch @cache_append_2x1_4x8
func.func @elsewhere(%c: tensor<2x4x2x4xf32>, %x: tensor<2x1x2x4xf32>, %p: tensor<2x1xi32>) -> tensor<2x4x2x4xf32> {
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x2x4xf32>, tensor<2x1x2x4xf32>, tensor<2x1xi32>) -> tensor<2x4x2x4xf32>
  return %0 : tensor<2x4x2x4xf32>
}
