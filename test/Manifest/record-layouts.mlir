// RUN: %optimus-opt %s --optimus-record-layouts | FileCheck %s
// The hash is that of the program, however flags say that IR is printed.
// RUN: optimus-opt %s --optimus-record-layouts -o %t.mlir
// RUN: optimus-opt %s --optimus-record-layouts --mlir-print-op-generic --mlir-print-debuginfo --mlir-print-local-scope --mlir-print-value-users | optimus-opt -o %t.generic.mlir
// RUN: diff %t.mlir %t.generic.mlir

// CHECK:      module attributes {exec.rounding = {"grad:w" = {{[0-9.e+-]+}} : f64},
// CHECK-SAME:   exec.source_hash = "{{[0-9a-f]+}}"
// CHECK:      func.func @grad_step(%arg0: tensor<4x8xf32>, %arg1: memref<4xf32>)
func.func @grad_step(%w: tensor<4x8xf32>, %buffer: memref<4xf32>) -> (tensor<4x8xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>}) attributes {optimus.entry = #optimus.entry<grad>} {
  %0 = optimus.add %w, %w : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
