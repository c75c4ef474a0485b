// RUN: %optimus-opt %s --optimus-fuse --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=FUSE
// RUN: %optimus-opt %s --optimus-fuse --optimus-to-exec --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(optimus-to-exec,func.func(optimus-schedule,optimus-place-buffers))' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=PLACE

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// What is computed comes first, and names the buffer.
// FUSE-LABEL: func.func @linear(
// FUSE: optimus.matmul {{.*}} loc(fused["sum"("m.py":4:0), "bias"("m.py":3:0), "up"("m.py":2:0)])
// CHECK-LABEL: func.func @linear(
// CHECK: exec.gemm {{.*}} loc(fused["sum"("m.py":4:0), "bias"("m.py":3:0), "up"("m.py":2:0)])
// CHECK: exec.alloc "activation" {values = ["gelu:0", "gelu:0 backward", "other:0"]} {{.*}} loc("gelu"("m.py":5:0))
// CHECK: exec.launch @gelu{{.*}} loc("gelu"("m.py":5:0))
// CHECK: exec.launch @mul{{.*}} loc(fused<#optimus.origin<phase = backward>>["gelu"("m.py":5:0)])
// CHECK: exec.launch @gelu{{.*}} loc("other"("m.py":6:0))
func.func @linear(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>, %r: tensor<8x4xf32>, %v: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32> loc("up"("m.py":2:0))
  %1 = optimus.add %0, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> loc("bias"("m.py":3:0))
  %2 = optimus.add %r, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc("sum"("m.py":4:0))
  %3 = optimus.gelu %2 : tensor<8x4xf32> loc("gelu"("m.py":5:0))
  %4 = optimus.mul %3, %r : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> loc(fused<#optimus.origin<phase = backward>>["gelu"("m.py":5:0)])
  %5 = optimus.gelu %4 : tensor<8x4xf32> loc("other"("m.py":6:0))
  %6 = optimus.matmul %5, %v : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("down"("m.py":7:0))
  return %2, %6 : tensor<8x4xf32>, tensor<8x4xf32>
}

// All panels of a product are its; workspaces say whose panel they hold.
// CHECK-LABEL: func.func @panels(
// CHECK: exec.alloc "activation" {values = ["gelu:0"]}
// CHECK: exec.alloc "workspace" {name = "received panel", values = ["gelu:0 panel 0"]} {{.*}} loc("up"("m.py":2:0))
// CHECK: exec.select_rank {{.*}} loc("up"("m.py":2:0))
// CHECK: exec.collective_start broadcast {{.*}} loc("up"("m.py":2:0))
// CHECK: exec.wait {{.*}} loc("up"("m.py":2:0))
// CHECK: exec.alloc "workspace" {name = "received panel", values = ["w panel 0"]}
// CHECK: exec.gemm {{.*}} loc("up"("m.py":2:0))
// CHECK: exec.alloc "workspace" {name = "received panel", values = ["gelu:0 panel 1"]}
// PLACE-LABEL: func.func @panels(
// PLACE: exec.arena_slot {{.*}} "activation" {values = ["gelu:0"]} {{.*}} loc("gelu"("m.py":1:0))
// PLACE: exec.arena_slot {{.*}} "workspace" {name = "received panel", values = ["gelu:0 panel 0"]} {{.*}} loc("up"("m.py":2:0))
// PLACE: exec.collective_start {{.*}} loc("up"("m.py":2:0))
// PLACE: exec.wait {{.*}} loc("up"("m.py":2:0))
// PLACE: exec.gemm {{.*}} loc("up"("m.py":2:0))
func.func @panels(%x: tensor<4x4xf32, #x>, %w: tensor<4x4xf32, #x> {optimus.param = "w"}) -> tensor<4x4xf32, #x> {
  %0 = optimus.gelu %x : tensor<4x4xf32, #x> loc("gelu"("m.py":1:0))
  %1 = ccl.matmul %0, %w {stationary = "c", panels = 2 : i64} : (tensor<4x4xf32, #x>, tensor<4x4xf32, #x>) -> tensor<4x4xf32, #x> loc("up"("m.py":2:0))
  return %1 : tensor<4x4xf32, #x>
}

// Without paths a value is known by what it is.
// CHECK-LABEL: func.func @unnamed(
// CHECK: exec.alloc "activation" {values = ["gelu:0", "gelu#1:0"]}
func.func @unnamed(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = optimus.gelu %x : tensor<4x4xf32>
  %1 = optimus.gelu %0 : tensor<4x4xf32>
  %2 = optimus.matmul %1, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
