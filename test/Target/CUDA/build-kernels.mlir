// RUN: optimus-opt %s --optimus-build-kernels=target=cuda --cse --verify-roundtrip | FileCheck %s

// Of elements, a thread does 16 bytes at a time and goes on where the grid ends;
// how many there are it learns when it runs. What is left is done one by one.
// CHECK-LABEL: func.func private @gelu_4096(
// CHECK-SAME:  %{{.*}}: index, %[[END:.*]]: index, %[[X:.*]]: memref<4096xf32>, %[[Y:.*]]: memref<4096xf32>)
// CHECK-DAG:   nvvm.read.ptx.sreg.tid.x
// CHECK-DAG:   nvvm.read.ptx.sreg.ctaid.x
// CHECK-DAG:   nvvm.read.ptx.sreg.nctaid.x
// CHECK:       %[[PIECES:.*]] = arith.divui %[[END]], %{{.*}} : index
// CHECK:       %[[WHOLE:.*]] = arith.muli %[[PIECES]],
// CHECK:       scf.for %[[AT:.*]] = %{{.*}} to %[[WHOLE]] step
// CHECK:         vector.load %[[X]][%[[AT]]] : memref<4096xf32>, vector<4xf32>
// CHECK:         vector.store %{{.*}}, %[[Y]][%[[AT]]] : memref<4096xf32>, vector<4xf32>
// CHECK:       scf.for %[[LAST:.*]] = %{{.*}} to %[[END]] step
// CHECK:         memref.load %[[X]][%[[LAST]]]
// CHECK:         memref.store %{{.*}}, %[[Y]][%[[LAST]]]
func.func private @gelu_4096(index, index, memref<4096xf32>, memref<4096xf32>)
  attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.gelu", attributes = {},
    rows = 1 : i64, cols = 4096 : i64, repeats = array<i64: 0>, results = 1 : i64}}

// 16 bytes are eight elements of bf16.
// CHECK-LABEL: func.func private @gelu_bf16_4096(
// CHECK:         vector.load %{{.*}} : memref<4096xbf16>, vector<8xbf16>
func.func private @gelu_bf16_4096(index, index, memref<4096xbf16>, memref<4096xbf16>)
  attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.gelu", attributes = {},
    rows = 1 : i64, cols = 4096 : i64, repeats = array<i64: 0>, results = 1 : i64}}

// A row is a warp's, which adds by five shuffles; one lane stores the sum.
// CHECK-LABEL: func.func private @row_dot_64x256(
// CHECK:       scf.for
// CHECK-COUNT-4: vector.load %{{.*}} : memref<16384xf32>, vector<4xf32>
// CHECK:       vector.reduction <add>
// CHECK:       nvvm.shfl.sync bfly
// CHECK-COUNT-4: nvvm.shfl.sync bfly
// CHECK-NOT:   nvvm.shfl.sync
// CHECK:       arith.cmpi eq
// CHECK-NEXT:  scf.if
// CHECK-NEXT:    memref.store
func.func private @row_dot_64x256(index, index, memref<16384xf32>, memref<16384xf32>, memref<64xf32>)
  attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 64 : i64, n = 256 : i64}}

// A longer row is a block's: its warps tell each other through shared memory,
// with a barrier before that is overwritten and one before it is read.
// CHECK:       memref.global "private" @row_max_8x5000_sums_f32_16 : memref<16xf32, 3> = uninitialized
// CHECK-LABEL: func.func private @row_max_8x5000(
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK:       nvvm.barrier0
// CHECK:       memref.store %{{.*}} : memref<16xf32, 3>
// CHECK:       nvvm.barrier0
// CHECK:       memref.load %{{.*}} : memref<16xf32, 3>
// CHECK-COUNT-4: nvvm.shfl.sync bfly
func.func private @row_max_8x5000(index, index, memref<40000xf32>, memref<8xf32>, i64)
  attributes {exec.kernel, exec.computes = {kind = "row_max", rows = 8 : i64, cols = 5000 : i64}}

// Column sums: a thread's, then those of a column.
// CHECK:       memref.global "private" @sum_leading_100x64_columns_512 : memref<512xf32, 3> = uninitialized
// CHECK-LABEL: func.func private @sum_leading_100x64(
// CHECK:       nvvm.barrier0
// CHECK:       memref.store %{{.*}} : memref<512xf32, 3>
// CHECK:       nvvm.barrier0
// CHECK-COUNT-6: nvvm.barrier0
// CHECK-NOT:   nvvm.barrier0
// CHECK:       memref.load %{{.*}} : memref<512xf32, 3>
// CHECK:       scf.if
// CHECK-NEXT:    memref.store %{{.*}} : memref<64xf32>
func.func private @sum_leading_100x64(index, index, memref<6400xf32>, memref<64xf32>)
  attributes {exec.kernel, exec.computes = {kind = "sum_leading", rows = 100 : i64, cols = 64 : i64}}
