// RUN: optimus-opt %s --optimus-build-kernels=target=cuda --optimus-kernels-to-nvvm --verify-roundtrip | FileCheck %s

// Nothing but kernels is left; a kernel takes the number of its iterations and no
// beginning.
// CHECK-NOT:   @step
// CHECK-LABEL: llvm.func @gelu_4096(
// CHECK-SAME:  %{{[^:]*}}: i64, %{{.*}}: !llvm.ptr {llvm.align = 16 : i64}, %{{.*}}: !llvm.ptr {llvm.align = 16 : i64}) attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256>}
// CHECK:       nvvm.read.ptx.sreg.ctaid.x
// CHECK:       llvm.load %{{.*}} : !llvm.ptr -> vector<4xf32>
// CHECK-LABEL: llvm.mlir.global private @row_max_8x5000_sums_f32_16() {addr_space = 3 : i32, alignment = 16 : i64{{.*}}} : !llvm.array<16 x f32>
// CHECK:       llvm.func @row_max_8x5000(
// CHECK-SAME:  %{{[^:,]*}}: i64) attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 512>}
// CHECK:       nvvm.barrier0
// CHECK:       llvm.store %{{.*}} : f32, !llvm.ptr<3>
// A name of PTX has no dashes.
// CHECK-LABEL: llvm.func @lengths_4x8_$1(
func.func @step(%x : memref<4096xf32>) {
  return
}
func.func private @gelu_4096(index, index, memref<4096xf32>, memref<4096xf32>)
  attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.gelu", attributes = {},
    rows = 1 : i64, cols = 4096 : i64, repeats = array<i64: 0>, results = 1 : i64}}
func.func private @row_max_8x5000(index, index, memref<40000xf32>, memref<8xf32>, i64)
  attributes {exec.kernel, exec.computes = {kind = "row_max", rows = 8 : i64, cols = 5000 : i64}}
func.func private @"lengths_4x8_-1"(index, index, memref<32xi32>, memref<4xi32>, i64)
  attributes {exec.kernel, exec.computes = {kind = "lengths", rows = 4 : i64, cols = 8 : i64, pad = -1 : i64}}
