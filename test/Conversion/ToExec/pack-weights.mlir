// RUN: optimus-opt %s --optimus-to-exec=mcpu=x86-64-v4 --optimus-verify-exec --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=mcpu=x86-64-v3 | FileCheck %s --check-prefix=NONE
// RUN: optimus-opt %s --optimus-to-exec | FileCheck %s --check-prefix=NONE
// RUN: not optimus-opt %s --optimus-to-exec=mcpu=abacus 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// On processors without AVX-512 no product gains by packing.
// NONE-NOT: exec.pack
// NONE-NOT: packed_b
// UNKNOWN: error: mcpu: unknown processor 'abacus'

// Transposed, W is packed into blocks of 16 x 64 once, just before its first
// product; as it lies it is multiplied as fast. No parameter is packed for its
// gradient.
// CHECK-LABEL: func.func @product(
// CHECK-SAME: %[[X:.*]]: memref<320xf32>, %[[W:.*]]: memref<1400xf32> {{{.*}}}, %[[DY:.*]]: memref<1120xf32>, %[[Y:.*]]: memref<1120xf32>, %[[DX:.*]]: memref<320xf32>, %[[AGAIN:.*]]: memref<320xf32>, %[[DW:.*]]: memref<1400xf32>)
// CHECK-NEXT: exec.gemm %[[X]], %[[W]], %[[Y]] {{{.*}}ldb = 70 : i64{{.*}}n = 70 : i64}
// CHECK-NEXT: %[[P:.*]] = exec.alloc "packed weight" {values = ["w packed transposed"]} : memref<5120xf32>
// CHECK-NEXT: exec.pack %[[W]] into %[[P]] {cols = 20 : i64, id = 1 : i32, ld = 70 : i64, rows = 70 : i64, trans}
// CHECK-NEXT: exec.gemm %[[DY]], %[[P]], %[[DX]] {{{.*}}k = 70 : i64, lda = 70 : i64, ldb = 5120 : i64, ldc = 20 : i64, m = 16 : i64, n = 20 : i64, packed_b}
// CHECK-NEXT: exec.gemm %[[DY]], %[[P]], %[[AGAIN]] {{{.*}}packed_b}
// CHECK-NEXT: exec.gemm %[[X]], %[[DY]], %[[DW]] {{{.*}}trans_a}
func.func @product(%x: tensor<16x20xf32>, %w: tensor<20x70xf32> {optimus.param = "w"}, %dy: tensor<16x70xf32>)
    -> (tensor<16x70xf32>, tensor<16x20xf32>, tensor<16x20xf32>, tensor<20x70xf32>) {
  %y = optimus.matmul %x, %w : (tensor<16x20xf32>, tensor<20x70xf32>) -> tensor<16x70xf32>
  %dx = optimus.matmul %dy, %w {transpose_b} : (tensor<16x70xf32>, tensor<20x70xf32>) -> tensor<16x20xf32>
  %again = optimus.matmul %dy, %w {transpose_b} : (tensor<16x70xf32>, tensor<20x70xf32>) -> tensor<16x20xf32>
  %dw = optimus.matmul %x, %dy {transpose_a} : (tensor<16x20xf32>, tensor<16x70xf32>) -> tensor<20x70xf32>
  return %y, %dx, %again, %dw : tensor<16x70xf32>, tensor<16x20xf32>, tensor<16x20xf32>, tensor<20x70xf32>
}

// With a bias it gains, too: all in one pass.
// CHECK-LABEL: func.func @bias(
// CHECK: exec.pack %{{.*}} into %[[P:.*]] {cols = 70 : i64, id = 0 : i32, ld = 70 : i64, rows = 20 : i64}
// CHECK-NEXT: exec.gemm %{{.*}}, %[[P]], %{{.*}} bias(%{{.*}}) {{{.*}}ldb = 4096 : i64{{.*}}packed_b}
func.func @bias(%x: tensor<16x20xf32>, %w: tensor<20x70xf32> {optimus.param = "w"}, %b: tensor<70xf32>) -> tensor<16x70xf32> {
  %y = optimus.matmul %x, %w bias(%b) : (tensor<16x20xf32>, tensor<20x70xf32>, tensor<70xf32>) -> tensor<16x70xf32>
  return %y : tensor<16x70xf32>
}

// Chunks of the loss share the packed table, also the last one, which is smaller.
// CHECK-LABEL: func.func @loss(
// CHECK-COUNT-1: exec.pack
// CHECK-NOT: exec.pack
// CHECK-COUNT-3: exec.gemm {{.*}}packed_b}
// CHECK-NOT: exec.pack
// CHECK: return
func.func @loss(%h: tensor<10x8xf32>, %table: tensor<6x8xf32> {optimus.param = "wte"}, %targets: tensor<10xi32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = optimus.head_loss %h, %table, %targets {chunk = 4 : i64} : (tensor<10x8xf32>, tensor<6x8xf32>, tensor<10xi32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}

// A token for each slot reads a weight once: packing it would move three times the
// bytes. Many slots are as many rows.
// CHECK-LABEL: func.func @next(
// CHECK-NOT: exec.pack
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) {{{.*}}ldb = 70 : i64
// CHECK-LABEL: func.func @next_of_many(
// CHECK: exec.pack
func.func @next(%x: tensor<16x20xf32>, %w: tensor<20x70xf32> {optimus.param = "w"}, %b: tensor<70xf32>) -> tensor<16x70xf32> attributes {optimus.entry = #optimus.entry<decode, batch = 16, sequence = 1>} {
  %y = optimus.matmul %x, %w bias(%b) : (tensor<16x20xf32>, tensor<20x70xf32>, tensor<70xf32>) -> tensor<16x70xf32>
  return %y : tensor<16x70xf32>
}
func.func @next_of_many(%x: tensor<17x20xf32>, %w: tensor<20x70xf32> {optimus.param = "w"}, %b: tensor<70xf32>) -> tensor<17x70xf32> attributes {optimus.entry = #optimus.entry<decode, batch = 17, sequence = 1>} {
  %y = optimus.matmul %x, %w bias(%b) : (tensor<17x20xf32>, tensor<20x70xf32>, tensor<70xf32>) -> tensor<17x70xf32>
  return %y : tensor<17x70xf32>
}
