// RUN: optimus-opt %s --optimus-build-kernels=target=cuda --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-build-kernels=target=cpu | FileCheck %s --check-prefix=CPU

// Where ranks share a GPU, one kernel adds for all collectives of a type, a
// number of ranks, and a result of one or of all; none copies. Processors add on
// the host.
// CHECK-LABEL: func.func @f
// CHECK:       exec.collective_start all_reduce sum over "col", {{.*}} kernel = @sum_of_ranks_to_all_2,
// CHECK:       exec.collective_start all_reduce sum over "col", {{.*}} kernel = @sum_of_ranks_to_all_2,
// CHECK:       exec.collective_start reduce sum over "col", {{.*}} kernel = @sum_of_ranks_bf16_2,
// CHECK:       exec.collective_start all_reduce max over "row", {{.*}} kernel = @max_of_ranks_to_all_3,
// CHECK-NOT:   kernel =
// CHECK:       return
// The largest decides about its operands; all are read before any is written.
// CHECK-LABEL: func.func private @sum_of_ranks_to_all_2(
// CHECK-SAME:  memref<64xf32>, %{{.*}}: memref<64xf32>, %{{.*}}: memref<64xf32>, %{{.*}}: memref<64xf32>)
// CHECK:         vector.load
// CHECK-NEXT:    vector.load
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    vector.store
// CHECK-NEXT:    vector.store
// A part of a buffer that begins anywhere is read element by element.
// CHECK-LABEL: func.func private @sum_of_ranks_bf16_2(
// CHECK-NOT:     vector.load
// CHECK:         memref.load
// CHECK-LABEL: func.func private @max_of_ranks_to_all_3(
// CPU-NOT: kernel =
// CPU-NOT: of_ranks
optimus.mesh @mesh <["row" = 3, "col" = 2]>
func.func @f(%x: memref<64xf32>, %y: memref<9xbf16>, %z: memref<192xf32>) {
  %0 = exec.collective_start all_reduce sum over "col", %x to %x
    {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  %1 = exec.collective_start all_reduce sum over "col", %x to %x
    {outer = 1 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 8 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %1
  %part = exec.slice %y[1] : memref<9xbf16> to memref<8xbf16>
  %2 = exec.collective_start reduce sum over "col", %part to %part
    {outer = 1 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 8 : i64} : memref<8xbf16>, memref<8xbf16>
  exec.wait %2
  %3 = exec.collective_start all_reduce max over "row", %x to %x
    {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %3
  %4 = exec.collective_start all_gather sum over "row", %x to %z
    {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 192 : i64} : memref<64xf32>, memref<192xf32>
  exec.wait %4
  return
}
