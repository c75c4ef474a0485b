// RUN: optimus-opt %s --optimus-group-launches=target=cuda --split-input-file | FileCheck %s
// RUN: optimus-opt %s --optimus-group-launches --split-input-file | FileCheck %s --check-prefix=CPU

// Launches of kernels that differ in extents become one. What is updated in place is handed over once, what all read
// too, and the kernels that nobody launches any more are gone.

// CPU-NOT: @grouped

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[P:.*]]: memref<8xf32>, %[[Q:.*]]: memref<4xf32>, %[[R:.*]]: memref<8xf32>, %[[G:.*]]: memref<8xf32>, %[[S:.*]]: memref<1xf32>, %[[N:.*]]: memref<1xf32>, %[[M:.*]]: memref<1xf32>
// CHECK-NEXT:    %[[H:.*]] = exec.slice
// CHECK-NEXT:    exec.launch @[[NAME:grouped_3_lamb_update_trust_4_[0-9A-F]+]](read %[[S]] : memref<1xf32>, read %[[M]] : memref<1xf32>,
// CHECK-SAME:      update %[[Q]] : memref<4xf32>, read %[[H]] : memref<4xf32>, read %[[N]] : memref<1xf32>,
// CHECK-SAME:      update %[[P]] : memref<8xf32>, read %[[G]] : memref<8xf32>, read %[[N]] : memref<1xf32>,
// CHECK-SAME:      update %[[R]] : memref<8xf32>, read %[[G]] : memref<8xf32>, read %[[S]] : memref<1xf32>) {id = 0 : i32}
// CHECK-NEXT:    return
// CHECK-NOT:   func.func private @lamb_update
// CHECK:       func.func private @[[NAME]](
// CHECK-SAME:    exec.computes = {buffers = ["param", "direction", "lr", "param_norm", "direction_norm", "param"], kind = "grouped", pieces = [{cols = 4 : i64, kind = "elementwise", op = "optimus.lamb_update", repeats = array<i64: 0, 0, 2, 2, 2>, results = 1 : i64, rows = 1 : i64}, {cols = 8 : i64, kind = "elementwise", op = "optimus.lamb_update", repeats = array<i64: 0, 0, 2, 2, 2>, results = 1 : i64, rows = 1 : i64}, {cols = 8 : i64, kind = "elementwise", op = "optimus.lamb_update", repeats = array<i64: 0, 0, 2, 2, 2>, results = 1 : i64, rows = 1 : i64}], shared = ["lr", "direction_norm"]}
module {
  func.func @update(%p: memref<8xf32>, %q: memref<4xf32>, %r: memref<8xf32>, %g: memref<8xf32>, %s: memref<1xf32>, %n: memref<1xf32>, %m: memref<1xf32>) {
    exec.launch @lamb_update_trust_8(read %p : memref<8xf32>, read %g : memref<8xf32>, read %s : memref<1xf32>, read %n : memref<1xf32>, read %m : memref<1xf32>, write %p : memref<8xf32>) {id = 0 : i32}
    %h = exec.slice %g[4] : memref<8xf32> to memref<4xf32>
    exec.launch @lamb_update_trust_4(read %q : memref<4xf32>, read %h : memref<4xf32>, read %s : memref<1xf32>, read %n : memref<1xf32>, read %m : memref<1xf32>, write %q : memref<4xf32>) {id = 1 : i32}
    exec.launch @lamb_update_trust_8(read %r : memref<8xf32>, read %g : memref<8xf32>, read %s : memref<1xf32>, read %s : memref<1xf32>, read %m : memref<1xf32>, write %r : memref<8xf32>) {id = 2 : i32}
    return
  }
  func.func private @lamb_update_trust_8(index, index, memref<8xf32>, memref<8xf32>, memref<1xf32>, memref<1xf32>, memref<1xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {cols = 8 : i64, kind = "elementwise", op = "optimus.lamb_update", repeats = array<i64: 0, 0, 2, 2, 2>, results = 1 : i64, rows = 1 : i64}}
  func.func private @lamb_update_trust_4(index, index, memref<4xf32>, memref<4xf32>, memref<1xf32>, memref<1xf32>, memref<1xf32>, memref<4xf32>) attributes {exec.kernel, exec.computes = {cols = 4 : i64, kind = "elementwise", op = "optimus.lamb_update", repeats = array<i64: 0, 0, 2, 2, 2>, results = 1 : i64, rows = 1 : i64}}
}
