// RUN: optimus-opt %s --optimus-build-kernels=target=cuda --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-build-kernels=target=cpu | FileCheck %s --check-prefix=CPU

// Rows that lie apart on either side are copied by a kernel, one for all of a
// width and distances. One stretch, zeros, and copies from or to the host are the
// device's own.
// CHECK-LABEL: func.func @f
// CHECK:       exec.copy {{.*}}kernel = @copy_rows_16_64_16_4,
// CHECK:       exec.copy {{.*}}kernel = @copy_rows_16_64_16_4,
// CHECK:       exec.copy {{.*}}kernel = @copy_rows_bf16_8_16_8_8,
// CHECK:       exec.copy {{.*}}kernel = @copy_rows_bf16_8_8_16_1,
// CHECK-NOT:   kernel =
// CHECK:       return
// As many rows as the most.
// CHECK-LABEL: func.func private @copy_rows_16_64_16_4(
// CHECK-SAME:  memref<464xf32>, %{{.*}}: memref<128xf32>)
// CHECK:         vector.load {{.*}} : memref<464xf32>, vector<4xf32>
// CHECK:         vector.store {{.*}} : memref<128xf32>, vector<4xf32>
// CHECK-LABEL: func.func private @copy_rows_bf16_8_16_8_8(
// CHECK:         vector.load {{.*}}, vector<8xbf16>
// CHECK:         vector.store {{.*}}, vector<8xbf16>
// A part of a buffer that begins anywhere is copied element by element.
// CHECK-LABEL: func.func private @copy_rows_bf16_8_8_16_1(
// CHECK-NOT:     vector.load
// CHECK:         memref.load
// CHECK:         memref.store
// CPU-NOT: kernel =
// CPU-NOT: copy_rows
func.func @f(%x: memref<512xf32>, %y: memref<128xf32>, %z: memref<129xbf16>, %w: memref<64xbf16>,
             %h: memref<512xf32, #exec<space host>>) {
  exec.copy %y from %x : memref<512xf32> {rows = 4, cols = 16, src_ld = 64, dst_ld = 16} : memref<128xf32>
  exec.copy %y from %x : memref<512xf32> {rows = 8, cols = 16, src_ld = 64, dst_ld = 16} : memref<128xf32>
  %whole = exec.slice %z[0] : memref<129xbf16> to memref<128xbf16>
  exec.copy %w from %whole : memref<128xbf16> {rows = 8, cols = 8, src_ld = 16, dst_ld = 8} : memref<64xbf16>
  %part = exec.slice %z[1] : memref<129xbf16> to memref<128xbf16>
  exec.copy %part from %w : memref<64xbf16> {rows = 8, cols = 8, src_ld = 8, dst_ld = 16} : memref<128xbf16>
  exec.copy %y from %x : memref<512xf32> {rows = 8, cols = 16, src_ld = 16, dst_ld = 16} : memref<128xf32>
  exec.copy %y from %x : memref<512xf32> {rows = 1, cols = 16, src_ld = 64, dst_ld = 32} : memref<128xf32>
  exec.copy %y {rows = 4, cols = 16, src_ld = 0, dst_ld = 32} : memref<128xf32>
  exec.copy %y from %h : memref<512xf32, #exec<space host>> {rows = 8, cols = 16, src_ld = 64, dst_ld = 16} : memref<128xf32>
  return
}
