// RUN: optimus-opt %s --optimus-to-exec --optimus-verify-exec --split-input-file --verify-roundtrip | FileCheck %s

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6, 2], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
#wt = #ccl.local<[12, 6, 2], #optimus.sharding<@mesh, [{"col"}, {"row"}, {}]>>
#y = #ccl.local<[8, 6, 2], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// C stays: both factors' panels come from their owners, who use them in place.
// CHECK-LABEL: func.func @c_stays(
// CHECK-SAME: %[[X:.*]]: memref<24xf32>, %[[W:.*]]: memref<36xf32>, %[[Y:.*]]: memref<24xf32>)
// CHECK: %[[RX:.*]] = exec.alloc "workspace" {name = "received panel", values = ["argument 0 panel 0"]} : memref<24xf32>
// CHECK: %[[PX:.*]] = exec.select_rank "col" is 0, %[[X]], %[[RX]]
// CHECK: %[[TX:.*]] = exec.collective_start broadcast sum over "col", %[[X]] to %[[PX]] {dst_ld = 6 : i64, id = 0 : i32, inner = 6 : i64, outer = 4 : i64, src_ld = 6 : i64}
// CHECK: exec.wait %[[TX]]
// CHECK: %[[PW:.*]] = exec.select_rank "row" is 0, %[[W]], %{{.*}}
// CHECK: exec.collective_start broadcast sum over "row", %[[W]] to %[[PW]] {dst_ld = 36 : i64, id = 2 : i32, inner = 36 : i64, outer = 1 : i64, src_ld = 36 : i64}
// CHECK: exec.gemm %[[PX]], %[[PW]], %[[Y]] {id = 4 : i32, k = 6 : i64, lda = 6 : i64, ldb = 6 : i64, ldc = 6 : i64, m = 4 : i64, n = 6 : i64}
// CHECK: exec.select_rank "col" is 1, %[[X]]
// CHECK: exec.collective_start broadcast sum over "col", {{.*}}, root = 1 : i64
// CHECK: exec.select_rank "row" is 1, %[[W]]
// CHECK: exec.gemm {{.*}}, %[[Y]] {accumulate,
// CHECK-NOT: exec.gemm
func.func @c_stays(%x: tensor<4x6xf32, #x>, %w: tensor<6x3x2xf32, #w>) -> tensor<4x3x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x3x2xf32, #w>) -> tensor<4x3x2xf32, #y>
  return %0 : tensor<4x3x2xf32, #y>
}

// A stays: B's panel is broadcast over the axis that shards n in B, C's is
// reduced over the one that shards n in C, and made in place on its owner.
// CHECK-LABEL: func.func @a_stays(
// CHECK-SAME: %[[X:.*]]: memref<24xf32>, %[[W:.*]]: memref<36xf32>, %[[Y:.*]]: memref<24xf32>)
// CHECK: %[[PW:.*]] = exec.select_rank "row" is 0, %[[W]], %{{.*}}
// CHECK: exec.collective_start broadcast sum over "row", %[[W]] to %[[PW]]
// CHECK: %[[PY:.*]] = exec.select_rank "col" is 0, %[[Y]], %{{.*}}
// CHECK: exec.gemm %[[X]], %[[PW]], %[[PY]] {id = 2 : i32, k = 6
// CHECK: exec.collective_start reduce sum over "col", %[[PY]] to %[[Y]] {dst_ld = 6 : i64, id = 3 : i32, inner = 6 : i64, outer = 4 : i64, src_ld = 6 : i64}
// CHECK: exec.select_rank "row" is 1, %[[W]]
// CHECK: exec.select_rank "col" is 1, %[[Y]]
// CHECK: exec.collective_start reduce sum over "col", {{.*}}root = 1 : i64
func.func @a_stays(%x: tensor<4x6xf32, #x>, %w: tensor<6x3x2xf32, #wt>) -> tensor<4x3x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x3x2xf32, #wt>) -> tensor<4x3x2xf32, #y>
  return %0 : tensor<4x3x2xf32, #y>
}

// dW = Xᵀ·dY with dY in place.
// CHECK-LABEL: func.func @b_stays(
// CHECK-SAME: %[[X:.*]]: memref<24xf32>, %[[DY:.*]]: memref<24xf32>, %[[DW:.*]]: memref<36xf32>)
// CHECK: %[[PX:.*]] = exec.select_rank "col" is 0, %[[X]]
// CHECK: exec.collective_start broadcast sum over "col", %[[X]] to %[[PX]]
// CHECK: %[[PW:.*]] = exec.select_rank "row" is 0, %[[DW]]
// CHECK: exec.gemm %[[PX]], %[[DY]], %[[PW]] {id = 2 : i32, k = 4 : i64, lda = 6 : i64, ldb = 6 : i64, ldc = 6 : i64, m = 6 : i64, n = 6 : i64, trans_a}
// CHECK: exec.collective_start reduce sum over "row", %[[PW]] to %[[DW]]
func.func @b_stays(%x: tensor<4x6xf32, #x>, %dy: tensor<4x3x2xf32, #y>) -> tensor<6x3x2xf32, #w> {
  %0 = ccl.matmul %x, %dy {stationary = "b", panels = 2 : i64, transpose_a} : (tensor<4x6xf32, #x>, tensor<4x3x2xf32, #y>) -> tensor<6x3x2xf32, #w>
  return %0 : tensor<6x3x2xf32, #w>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 2, 6, 2], #optimus.sharding<@mesh, [{"col"}, {}, {"row"}, {}]>>
#y = #ccl.local<[8, 2, 6, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
optimus.mesh @mesh <["row" = 2, "col" = 3]>

// With 6 panels each rank of "row" holds 3 of W's. A panel is then a stretch of
// each of the 4·2 rows that the dimensions before it make up: the broadcast packs
// it, on its owner too, and the reduction puts C's panel back into its rows.
// CHECK-LABEL: func.func @strided(
// CHECK-SAME: %[[X:.*]]: memref<16xf32>, %[[W:.*]]: memref<48xf32>, %[[Y:.*]]: memref<32xf32>)
// CHECK: %[[W0:.*]] = exec.slice %[[W]][0] : memref<48xf32> to memref<44xf32>
// CHECK: %[[PW:.*]] = exec.alloc "workspace" {name = "received panel", values = ["argument 1 panel 0"]} : memref<16xf32>
// CHECK: exec.collective_start broadcast sum over "row", %[[W0]] to %[[PW]] {dst_ld = 2 : i64, id = 0 : i32, inner = 2 : i64, outer = 8 : i64, src_ld = 6 : i64}
// CHECK: %[[PY:.*]] = exec.alloc "workspace" {name = "partial panel", values = ["matmul:0 panel 0"]} : memref<16xf32>
// CHECK: exec.gemm %[[X]], %[[PW]], %[[PY]] {id = 2 : i32, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64, m = 4 : i64, n = 4 : i64}
// CHECK: %[[Y0:.*]] = exec.slice %[[Y]][0] : memref<32xf32> to memref<30xf32>
// CHECK: exec.collective_start reduce sum over "col", %[[PY]] to %[[Y0]] {dst_ld = 4 : i64, id = 3 : i32, inner = 2 : i64, outer = 8 : i64, src_ld = 2 : i64}
// Panel 1 is the second of the same owners.
// CHECK: exec.slice %[[W]][2]
// CHECK: exec.slice %[[Y]][2]
// Panel 2 is W's third on its first owner, and the first of C's second.
// CHECK: exec.slice %[[W]][4]
// CHECK: exec.collective_start broadcast sum over "row", %{{[^{]*}} {dst_ld = 2 : i64, id = 10 : i32, inner = 2 : i64, outer = 8 : i64, src_ld = 6 : i64}
// CHECK: exec.collective_start reduce {{.*}}root = 1 : i64
// CHECK-COUNT-3: exec.gemm
func.func @strided(%x: tensor<4x4xf32, #x>, %w: tensor<4x2x3x2xf32, #w>) -> tensor<4x2x2x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<4x2x3x2xf32, #w>) -> tensor<4x2x2x2xf32, #y>
  return %0 : tensor<4x2x2x2xf32, #y>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 1, "col" = 2]>

// On a 1×2 mesh W does not move: its panels are rows of it.
// CHECK-LABEL: func.func @one_row(
// CHECK-SAME: %{{.*}}: memref<48xf32>, %[[W:.*]]: memref<36xf32>
// CHECK-NOT: over "row"
// CHECK: %[[W0:.*]] = exec.slice %[[W]][0] : memref<36xf32> to memref<18xf32>
// CHECK: exec.gemm %{{.*}}, %[[W0]], %{{.*}} {id = 2 : i32, k = 6
// CHECK: %[[W1:.*]] = exec.slice %[[W]][18] : memref<36xf32> to memref<18xf32>
// CHECK: exec.gemm %{{.*}}, %[[W1]], %{{.*}} {accumulate
func.func @one_row(%x: tensor<8x6xf32, #x>, %w: tensor<12x3xf32, #w>) -> tensor<8x3xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<8x6xf32, #x>, tensor<12x3xf32, #w>) -> tensor<8x3xf32, #y>
  return %0 : tensor<8x3xf32, #y>
}

// -----

#x = #ccl.local<[8, 16], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#wt = #ccl.local<[16, 16], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#yt = #ccl.local<[8, 16], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 4]>

// Two panels of K = 16, which are fewer than the 4 blocks: a panel has half of
// each rank's part of X. Of W a rank of "row" has two blocks, whose halves are
// packed first; those of the second panel before the first is multiplied, so
// that they can move meanwhile.
// CHECK-LABEL: func.func @gathered(
// CHECK-SAME: %[[X:.*]]: memref<16xf32>, %[[W:.*]]: memref<16xf32>, %[[Y:.*]]: memref<8xf32>)
// CHECK: %[[W1:.*]] = exec.slice %[[W]][4] : memref<16xf32> to memref<12xf32>
// CHECK: %[[NEXT:.*]] = exec.alloc "workspace" {name = "packed part", values = ["argument 1 panel 1"]} : memref<8xf32>
// CHECK: exec.copy %[[NEXT]] from %[[W1]] : {{.*}} {cols = 4 : i64, dst_ld = 4 : i64, {{.*}}rows = 2 : i64, src_ld = 8 : i64}
// CHECK: %[[X0:.*]] = exec.slice %[[X]][0] : memref<16xf32> to memref<14xf32>
// CHECK: %[[PX:.*]] = exec.alloc "workspace" {name = "received panel", values = ["argument 0 panel 0"]} : memref<32xf32>
// CHECK: exec.collective_start all_gather sum over "col", %[[X0]] to %[[PX]] {dst_ld = 8 : i64, {{.*}}inner = 2 : i64, outer = 4 : i64, src_ld = 4 : i64}
// CHECK: %[[PW:.*]] = exec.alloc "workspace" {name = "received panel", values = ["argument 1 panel 0"]} : memref<16xf32>
// CHECK: exec.copy %[[OWN:.*]] from
// CHECK: exec.collective_start all_gather sum over "row", %[[OWN]] to %[[PW]] {dst_ld = 16 : i64, {{.*}}inner = 8 : i64, outer = 1 : i64, src_ld = 8 : i64}
// CHECK: exec.gemm %[[PX]], %[[PW]], %[[Y]] {{{.*}}k = 8 : i64, lda = 8 : i64, ldb = 2 : i64, ldc = 2 : i64, m = 4 : i64, n = 2 : i64}
// CHECK: exec.slice %[[X]][2]
// CHECK: exec.collective_start all_gather sum over "row", %[[NEXT]]
// CHECK: exec.gemm {{.*}}, %[[Y]] {accumulate
// CHECK-NOT: exec.gemm
func.func @gathered(%x: tensor<4x4xf32, #x>, %w: tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<4x4xf32, #x>, tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y>
  return %0 : tensor<4x2xf32, #y>
}

// A result's panel is scattered to all of its ranks.
// CHECK-LABEL: func.func @scattered(
// CHECK-SAME: %{{.*}}: memref<16xf32>, %{{.*}}: memref<32xf32>, %[[Y:.*]]: memref<16xf32>)
// CHECK: exec.collective_start all_gather sum over "row"
// CHECK: %[[P:.*]] = exec.alloc "workspace" {name = "partial panel", values = ["matmul:0 panel 0"]} : memref<32xf32>
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[P]] {{.*}}n = 8 : i64
// CHECK: %[[Y0:.*]] = exec.slice %[[Y]][0] : memref<16xf32> to memref<14xf32>
// CHECK: exec.collective_start reduce_scatter sum over "col", %[[P]] to %[[Y0]] {dst_ld = 4 : i64, {{.*}}inner = 2 : i64, outer = 4 : i64, src_ld = 8 : i64}
// CHECK: exec.slice %[[Y]][2]
// CHECK: exec.collective_start reduce_scatter sum over "col"
// CHECK-NOT: exec.gemm
func.func @scattered(%x: tensor<4x4xf32, #yt>, %w: tensor<4x8xf32, #wt>) -> tensor<4x4xf32, #yt> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 2 : i64} : (tensor<4x4xf32, #yt>, tensor<4x8xf32, #wt>) -> tensor<4x4xf32, #yt>
  return %0 : tensor<4x4xf32, #yt>
}

// One panel is each tensor whole, and nothing is packed.
// CHECK-LABEL: func.func @whole(
// CHECK: exec.collective_start all_gather sum over "col", %{{.*}} {dst_ld = 16 : i64, {{.*}}inner = 4 : i64, outer = 4 : i64, src_ld = 4 : i64}
// CHECK: exec.collective_start all_gather sum over "row", %{{.*}} {{.*}}inner = 16 : i64, outer = 1 : i64
// CHECK-NOT: exec.copy
// CHECK: exec.gemm {{.*}}k = 16 : i64
// CHECK-NOT: exec.gemm
func.func @whole(%x: tensor<4x4xf32, #x>, %w: tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 1 : i64} : (tensor<4x4xf32, #x>, tensor<8x2xf32, #w>) -> tensor<4x2xf32, #y>
  return %0 : tensor<4x2xf32, #y>
}
