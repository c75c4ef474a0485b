// RUN: optimus-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(optimus-group-products))' | FileCheck %s
// RUN: optimus-opt %s -split-input-file -pass-pipeline='builtin.module(func.func(optimus-group-products),optimus-to-exec)' | FileCheck %s --check-prefix=EXEC

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// Both multiply x, so the second comes to where the first stands, though its
// sibling is used in between. A product of y shares nothing.
// CHECK-LABEL: @one_input(
// CHECK: %[[Q:.*]] = ccl.matmul %arg0, %arg1 {ccl.group = 0 : i64, panels = 2
// CHECK-NEXT: %[[K:.*]] = ccl.matmul %arg0, %arg2 {ccl.group = 0 : i64, panels = 2
// CHECK-NEXT: %[[Y:.*]] = optimus.gelu %[[Q]]
// CHECK-NEXT: ccl.matmul %[[Y]], %arg1 {panels = 2
// Each panel of x moves once, over "col", for both products.
// EXEC-LABEL: @one_input(
// EXEC: exec.collective_start broadcast sum over "col"
// EXEC: exec.collective_start broadcast sum over "row"
// EXEC: exec.gemm
// EXEC-NOT: over "col"
// EXEC: exec.collective_start broadcast sum over "row"
// EXEC: exec.gemm
// EXEC: exec.collective_start broadcast sum over "col"
// EXEC: accumulate
// EXEC-NOT: over "col"
// EXEC: accumulate
// EXEC: return
func.func @one_input(%x: tensor<4x6xf32, #x>, %wq: tensor<6x6xf32, #w>, %wk: tensor<6x6xf32, #w>) -> (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) {
  %q = ccl.matmul %x, %wq {stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %y = optimus.gelu %q : tensor<4x6xf32, #x>
  %z = ccl.matmul %y, %wq {stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %k = ccl.matmul %x, %wk {stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  return %z, %k : tensor<4x6xf32, #x>, tensor<4x6xf32, #x>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// The input's gradient is a sum of two products, made in one partial panel and
// reduced once. The operation between them makes what the second needs, so
// the first comes down to it.
// CHECK-LABEL: @sum(
// CHECK: %[[DK:.*]] = optimus.gelu %arg0
// CHECK-NEXT: %[[P:.*]] = ccl.matmul %arg0, %arg1 {ccl.group = 0
// CHECK-NEXT: %[[R:.*]] = ccl.matmul %[[DK]], %arg2 {ccl.group = 0
// CHECK-NEXT: optimus.add %[[P]], %[[R]] {ccl.group = 0
// EXEC-LABEL: @sum(
// EXEC: exec.gemm
// EXEC-NOT: exec.collective_start reduce
// EXEC: exec.gemm {{.*}}accumulate
// EXEC: exec.collective_start reduce
// EXEC: exec.gemm
// EXEC-NOT: exec.collective_start reduce
// EXEC: exec.gemm {{.*}}accumulate
// EXEC: exec.collective_start reduce
// EXEC-NOT: exec.gemm
// EXEC-NOT: exec.launch @{{.*}}add
// EXEC: return
func.func @sum(%dq: tensor<4x6xf32, #x>, %wq: tensor<6x6xf32, #w>, %wk: tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x> {
  %p = ccl.matmul %dq, %wq {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %dk = optimus.gelu %dq : tensor<4x6xf32, #x>
  %r = ccl.matmul %dk, %wk {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %dx = optimus.add %p, %r : (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) -> tensor<4x6xf32, #x>
  return %dx : tensor<4x6xf32, #x>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// The second product of x depends on the first, and the sum's product is used
// elsewhere: nothing is grouped.
// CHECK-LABEL: @apart(
// CHECK-NOT: ccl.group
// CHECK: return
func.func @apart(%x: tensor<4x6xf32, #x>, %w: tensor<6x6xf32, #w>, %v: tensor<6x6xf32, #w>) -> (tensor<6x6xf32, #w>, tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) {
  %y = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %dy = optimus.gelu %y : tensor<4x6xf32, #x>
  %dw = ccl.matmul %x, %dy {stationary = "b", panels = 2 : i64, transpose_a} : (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) -> tensor<6x6xf32, #w>
  %p = ccl.matmul %dy, %w {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %r = ccl.matmul %y, %v {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %sum = optimus.add %p, %r : (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) -> tensor<4x6xf32, #x>
  return %dw, %p, %sum : tensor<6x6xf32, #w>, tensor<4x6xf32, #x>, tensor<4x6xf32, #x>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// The gradients of a linear whose input stays both move the output's gradient.
// CHECK-LABEL: @both_gradients(
// CHECK: ccl.matmul %arg0, %arg1 {ccl.group = 0
// CHECK-NEXT: ccl.matmul %arg2, %arg0 {ccl.group = 0
// EXEC-LABEL: @both_gradients(
// EXEC: broadcast sum over "col"
// EXEC-NOT: broadcast sum over "col"
// EXEC: broadcast sum over "col"{{.*}}root = 1
// EXEC-NOT: broadcast sum over "col"
// EXEC: return
func.func @both_gradients(%dy: tensor<4x6xf32, #x>, %w: tensor<6x6xf32, #w>, %x: tensor<4x6xf32, #x>) -> (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) {
  %dx = ccl.matmul %dy, %w {stationary = "c", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  %dw = ccl.matmul %x, %dy {stationary = "a", panels = 2 : i64, transpose_a} : (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) -> tensor<6x6xf32, #w>
  return %dx, %dw : tensor<4x6xf32, #x>, tensor<6x6xf32, #w>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// The cast of the second weight comes along, though the first product is used
// before it.
// CHECK-LABEL: @casts(
// CHECK: %[[V:.*]] = optimus.cast %arg1
// CHECK-NEXT: %[[U:.*]] = optimus.cast %arg2
// CHECK-NEXT: %[[Q:.*]] = ccl.matmul %arg0, %[[V]] {ccl.group = 0
// CHECK-NEXT: ccl.matmul %arg0, %[[U]] {ccl.group = 0
// CHECK-NEXT: optimus.gelu %[[Q]]
func.func @casts(%x: tensor<4x6xbf16, #x>, %wq: tensor<6x6xf32, #w>, %wk: tensor<6x6xf32, #w>) -> (tensor<4x6xbf16, #x>, tensor<4x6xbf16, #x>) {
  %vq = optimus.cast %wq : (tensor<6x6xf32, #w>) -> tensor<6x6xbf16, #w>
  %q = ccl.matmul %x, %vq {stationary = "c", panels = 2 : i64} : (tensor<4x6xbf16, #x>, tensor<6x6xbf16, #w>) -> tensor<4x6xbf16, #x>
  %y = optimus.gelu %q : tensor<4x6xbf16, #x>
  %vk = optimus.cast %wk : (tensor<6x6xf32, #w>) -> tensor<6x6xbf16, #w>
  %k = ccl.matmul %x, %vk {stationary = "c", panels = 2 : i64} : (tensor<4x6xbf16, #x>, tensor<6x6xbf16, #w>) -> tensor<4x6xbf16, #x>
  return %y, %k : tensor<4x6xbf16, #x>, tensor<4x6xbf16, #x>
}
