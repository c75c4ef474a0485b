// RUN: %optimus-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// What is printed parses again, with aliases too.
// RUN: optimus-opt %s --mlir-print-debuginfo | optimus-opt --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: sed 's/result = 2/result = -1/' %s > %t.negative.mlir
// RUN: not optimus-opt %t.negative.mlir 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: sed 's/ordinal = 7/ordinal = 2147483648/' %s > %t.large.mlir
// RUN: not optimus-opt %t.large.mlir 2>&1 | FileCheck %s --check-prefix=LARGE

// NEGATIVE: error: C1: expected numbers from 0 to 2147483647, found -1
// LARGE: error: C1: expected numbers from 0 to 2147483647, found 2147483648

// CHECK-LABEL: func.func @origins
// CHECK: optimus.gelu {{.*}} loc(fused<#optimus.origin<phase = forward, result = 2, part = "sums", ordinal = 7>>["h.0"("m.py":1:0)])
// CHECK: optimus.gelu {{.*}} loc(fused<#optimus.origin<phase = recomputed>>["h.0"])
func.func @origins(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.gelu %x : tensor<4xf32> loc(fused<#optimus.origin<phase = forward, result = 2, part = "sums", ordinal = 7>>["h.0"("m.py":1:0)])
  %1 = optimus.gelu %0 : tensor<4xf32> loc(fused<#optimus.origin<phase = recomputed>>["h.0"])
  return %1 : tensor<4xf32>
}
