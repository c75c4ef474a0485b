// RUN: optimus-opt %s --optimus-sum-in-products=target=cuda --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-sum-in-products=target=cpu | FileCheck %s --check-prefix=CPU

// CPU-NOT: bias_grad

// The product that has dY as B sums its rows.
// CHECK-LABEL: func.func @weight
// CHECK-NOT:     exec.launch
// CHECK:         exec.gemm %[[DY:[a-z0-9]+]],
// CHECK-NEXT:    exec.gemm %{{.*}}, %[[DY]], %{{.*}} bias(%{{.*}} : memref<8xf32>)
// CHECK-SAME:      epilogue = #exec<epilogue bias_grad>
// CHECK-SAME:      kernel = @sum_leading_x_bf16_16x8
// CHECK-SAME:      trans_a
// CHECK:         return
func.func @weight(%x: memref<64xbf16>, %w: memref<32xbf16>, %dy: memref<128xbf16>, %dx: memref<64xbf16>,
                  %dw: memref<32xf32>, %db: memref<8xf32>) {
  exec.launch @sum_leading_x_bf16_16x8(read %dy : memref<128xbf16>, write %db : memref<8xf32>)
  exec.gemm %dy, %w, %dx {m = 16, n = 4, k = 8, lda = 8, ldb = 8, ldc = 4, trans_b} : memref<128xbf16>, memref<32xbf16>, memref<64xbf16>
  exec.gemm %x, %dy, %dw {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a} : memref<64xbf16>, memref<128xbf16>, memref<32xf32>
  return
}

// Not one that accumulates, or whose result is of another type, nor where the sum
// is read, or dY written, before.
// CHECK-LABEL: func.func @not
// CHECK-COUNT-4: exec.launch @sum_leading_x_bf16_16x8
// CHECK:         return
func.func @not(%x: memref<64xbf16>, %dy: memref<128xbf16>, %dw: memref<32xf32>, %narrow: memref<32xbf16>,
               %db: memref<8xf32>, %other: memref<8xf32>) {
  exec.launch @sum_leading_x_bf16_16x8(read %dy : memref<128xbf16>, write %db : memref<8xf32>)
  exec.gemm %x, %dy, %dw {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a, accumulate} : memref<64xbf16>, memref<128xbf16>, memref<32xf32>
  exec.copy %dy {rows = 1, cols = 128, src_ld = 0, dst_ld = 128} : memref<128xbf16>
  exec.launch @sum_leading_x_bf16_16x8(read %dy : memref<128xbf16>, write %db : memref<8xf32>)
  exec.gemm %x, %dy, %narrow {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a} : memref<64xbf16>, memref<128xbf16>, memref<32xbf16>
  exec.copy %dy {rows = 1, cols = 128, src_ld = 0, dst_ld = 128} : memref<128xbf16>
  exec.launch @sum_leading_x_bf16_16x8(read %dy : memref<128xbf16>, write %db : memref<8xf32>)
  exec.copy %other from %db : memref<8xf32> {rows = 1, cols = 8, src_ld = 8, dst_ld = 8} : memref<8xf32>
  exec.gemm %x, %dy, %dw {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a} : memref<64xbf16>, memref<128xbf16>, memref<32xf32>
  exec.launch @sum_leading_x_bf16_16x8(read %dy : memref<128xbf16>, write %db : memref<8xf32>)
  exec.copy %dy {rows = 1, cols = 128, src_ld = 0, dst_ld = 128} : memref<128xbf16>
  exec.gemm %x, %dy, %dw {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a} : memref<64xbf16>, memref<128xbf16>, memref<32xf32>
  return
}

// Sums of f32 stay what they were.
// CHECK-LABEL: func.func @wide
// CHECK:         exec.launch @sum_leading_16x8
func.func @wide(%x: memref<64xf32>, %dy: memref<128xf32>, %dw: memref<32xf32>, %db: memref<8xf32>) {
  exec.launch @sum_leading_16x8(read %dy : memref<128xf32>, write %db : memref<8xf32>)
  exec.gemm %x, %dy, %dw {m = 4, n = 8, k = 16, lda = 4, ldb = 8, ldc = 8, trans_a} : memref<64xf32>, memref<128xf32>, memref<32xf32>
  return
}

func.func private @sum_leading_x_bf16_16x8(index, index, memref<128xbf16>, memref<8xf32>)
  attributes {exec.kernel, exec.computes = {kind = "sum_leading", rows = 16 : i64, cols = 8 : i64}}
func.func private @sum_leading_16x8(index, index, memref<128xf32>, memref<8xf32>)
  attributes {exec.kernel, exec.computes = {kind = "sum_leading", rows = 16 : i64, cols = 8 : i64}}
