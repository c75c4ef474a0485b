// RUN: optimus-opt %s --optimus-chain-launches=target=cuda --split-input-file | FileCheck %s
// RUN: optimus-opt %s --optimus-chain-launches --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: optimus-opt %s --optimus-chain-launches=target=cuda --optimus-build-kernels=target=cuda --split-input-file -o /dev/null

// Launches that pass rows on become one, and a launch of elements does them as rows then.

// CPU-NOT: @chain

// CHECK-LABEL: func.func @norm(
// CHECK-SAME:    %[[X:.*]]: memref<64xbf16>, %[[R:.*]]: memref<64xbf16>, %[[G:.*]]: memref<8xf32>, %[[Y:.*]]: memref<64xbf16>, %[[S:.*]]: memref<8xf32>, %[[W:.*]]: memref<5xi32>
// CHECK:         %[[STREAM:.*]] = arith.constant 3 : i64
// CHECK-NEXT:    exec.launch @[[NAME:chain_dropout_.*_add_8x8_rms_norm_8x8_.*]](update %[[X]] : memref<64xbf16>, read %[[W]] : memref<5xi32>, read %[[R]] : memref<64xbf16>,
// CHECK-SAME:      read %[[G]] : memref<8xf32>, write %[[Y]] : memref<64xbf16>, write %[[S]] : memref<8xf32>) scalars(%[[STREAM]] : i64) {id = 0 : i32}
// CHECK-NEXT:    return
// CHECK-NOT:   func.func private @add_64
// CHECK:       func.func private @[[NAME]](
// CHECK-SAME:    scalars = ["s0"]
// CHECK-SAME:    cols = 8 : i64, kind = "elementwise", op = "optimus.add", repeats = array<i64: 0, 0>, results = 1 : i64, rows = 8 : i64
module {
  func.func @norm(%x: memref<64xbf16>, %r: memref<64xbf16>, %g: memref<8xf32>, %y: memref<64xbf16>, %s: memref<8xf32>, %w: memref<5xi32>) {
    %c = arith.constant 3 : i64
    exec.launch @dropout(read %x : memref<64xbf16>, read %w : memref<5xi32>, write %x : memref<64xbf16>) scalars(%c : i64) {id = 0 : i32}
    exec.launch @add_64(read %x : memref<64xbf16>, read %r : memref<64xbf16>, write %x : memref<64xbf16>) {id = 1 : i32}
    exec.launch @rms_norm(read %x : memref<64xbf16>, read %g : memref<8xf32>, write %y : memref<64xbf16>, write %s : memref<8xf32>) {id = 2 : i32}
    return
  }
  func.func private @dropout(index, index, memref<64xbf16>, memref<5xi32>, memref<64xbf16>, i64) attributes {exec.kernel, exec.computes = {kind = "dropout", local = array<i64: 8, 8>, whole = array<i64: 8, 8>, addends = 0 : i64, rate = 0.5 : f64}}
  func.func private @add_64(index, index, memref<64xbf16>, memref<64xbf16>, memref<64xbf16>) attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.add", rows = 1 : i64, cols = 64 : i64, repeats = array<i64: 0, 0>, results = 1 : i64}}
  func.func private @rms_norm(index, index, memref<64xbf16>, memref<8xf32>, memref<64xbf16>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_norm", rows = 8 : i64, n = 8 : i64, epsilon = 1.0e-6 : f64}}
}

// -----

// What all rows read is not there before all rows are done, and not written before all have read it.

// CHECK-LABEL: func.func @apart(
// CHECK-NOT:     @chain
module {
  func.func @apart(%x: memref<64xf32>, %y: memref<64xf32>, %g: memref<8xf32>, %h: memref<8xf32>, %s: memref<8xf32>, %t: memref<64xf32>) {
    exec.launch @rms_norm(read %x : memref<64xf32>, read %g : memref<8xf32>, write %y : memref<64xf32>, write %s : memref<8xf32>) {id = 0 : i32}
    exec.launch @rms_norm(read %x : memref<64xf32>, read %h : memref<8xf32>, write %t : memref<64xf32>, write %g : memref<8xf32>) {id = 1 : i32}
    exec.launch @rms_norm(read %t : memref<64xf32>, read %g : memref<8xf32>, write %y : memref<64xf32>, write %s : memref<8xf32>) {id = 2 : i32}

    return
  }
  func.func private @rms_norm(index, index, memref<64xf32>, memref<8xf32>, memref<64xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_norm", rows = 8 : i64, n = 8 : i64, epsilon = 1.0e-6 : f64}}
}

// -----

// Sums of columns come with the rows that are there: those of each 32 rows, which a launch adds up. What the sums read is not
// overwritten before.

// CHECK-LABEL: func.func @sums(
// CHECK-SAME:    %[[DY:.*]]: memref<512xf32>, %[[X:.*]]: memref<512xf32>, %[[S:.*]]: memref<64xf32>, %[[G:.*]]: memref<8xf32>, %[[DG:.*]]: memref<8xf32>, %[[DB:.*]]: memref<8xf32>)
// CHECK-NEXT:    %[[GAINS:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "partial sums"} : memref<16xf32>
// CHECK-NEXT:    %[[BIASES:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "partial sums"} : memref<16xf32>
// CHECK-NEXT:    exec.launch @[[NAME:sums_rms_param_grad_64x8_rms_norm_grad_8_64x8_sum_leading_64x8_.*_32]](update %[[DY]] : memref<512xf32>, read %[[X]] : memref<512xf32>, read %[[S]] : memref<64xf32>,
// CHECK-SAME:      write %[[GAINS]] : memref<16xf32>, read %[[G]] : memref<8xf32>, write %[[BIASES]] : memref<16xf32>)
// CHECK-NEXT:    exec.launch @sum_leading_2x8(read %[[GAINS]] : memref<16xf32>, write %[[DG]] : memref<8xf32>)
// CHECK-NEXT:    exec.launch @sum_leading_2x8(read %[[BIASES]] : memref<16xf32>, write %[[DB]] : memref<8xf32>)
// CHECK-NEXT:    return
// CHECK:       func.func private @[[NAME]](
// CHECK-SAME:    kind = "row_sums"
// CHECK-SAME:    together = 32 : i64
module {
  func.func @sums(%dy: memref<512xf32>, %x: memref<512xf32>, %s: memref<64xf32>, %g: memref<8xf32>, %dg: memref<8xf32>, %db: memref<8xf32>) {
    exec.launch @rms_param_grad(read %dy : memref<512xf32>, read %x : memref<512xf32>, read %s : memref<64xf32>, write %dg : memref<8xf32>) {id = 0 : i32}
    exec.launch @rms_norm_grad(read %dy : memref<512xf32>, read %x : memref<512xf32>, read %s : memref<64xf32>, read %g : memref<8xf32>, write %dy : memref<512xf32>) {id = 1 : i32}
    exec.launch @sum_leading(read %dy : memref<512xf32>, write %db : memref<8xf32>) {id = 2 : i32}
    return
  }
  func.func private @rms_param_grad(index, index, memref<512xf32>, memref<512xf32>, memref<64xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_param_grad", rows = 64 : i64, n = 8 : i64}}
  func.func private @rms_norm_grad(index, index, memref<512xf32>, memref<512xf32>, memref<64xf32>, memref<8xf32>, memref<512xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_norm_grad", rows = 64 : i64, n = 8 : i64, size = 8 : i64}}
  func.func private @sum_leading(index, index, memref<512xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "sum_leading", rows = 64 : i64, cols = 8 : i64}}
}

// -----

// What 32 rows have is whole.

// CHECK-LABEL: func.func @few(
// CHECK-NEXT:    exec.launch @sums_add_2x8_sum_leading_2x8_{{.*}}(read %{{.*}} : memref<16xf32>, update %{{.*}} : memref<16xf32>, write %{{.*}} : memref<8xf32>)
// CHECK-NEXT:    return
module {
  func.func @few(%x: memref<16xf32>, %y: memref<16xf32>, %s: memref<8xf32>) {
    exec.launch @add(read %x : memref<16xf32>, read %y : memref<16xf32>, write %y : memref<16xf32>) {id = 0 : i32}
    exec.launch @sum_leading(read %y : memref<16xf32>, write %s : memref<8xf32>) {id = 1 : i32}
    return
  }
  func.func private @add(index, index, memref<16xf32>, memref<16xf32>, memref<16xf32>) attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.add", rows = 1 : i64, cols = 16 : i64, repeats = array<i64: 0, 0>, results = 1 : i64}}
  func.func private @sum_leading(index, index, memref<16xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "sum_leading", rows = 2 : i64, cols = 8 : i64}}
}
