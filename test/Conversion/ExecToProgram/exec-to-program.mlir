// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-print-commands)' -o /dev/null | FileCheck %s
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-print-commands{rank=5})' -o /dev/null | FileCheck %s --check-prefix=RANK

optimus.mesh @mesh <["row" = 2, "col" = 3]>

// Functions of commands in the module's order; kernels are none.
// CHECK:      function step: arena0 of 8192 bytes (device)
// CHECK-NEXT: 0 compute: gemm
// RANK:       function step: arena0 of 8192 bytes (device)
// RANK-NEXT:  0 compute: gemm
func.func @step(%arena: memref<8192xi8>, %x: memref<512xf32>, %y: memref<512xf32>) {
  %slot = exec.arena_slot %arena[1024] "activation" : memref<8192xi8> to memref<512xf32>
  // Part of the slot by the index on col, of which rank 5 has 2.
  %part = exec.slice_rank %slot over ["col"] stride 128 : memref<512xf32> to memref<256xf32>
  %half = exec.slice %y[256] : memref<512xf32> to memref<256xf32>

  // A product into a slice of an argument: arguments are counted without the
  // arena. Without bias and extra, these are absent.
  // CHECK-SAME: 16x16x16 read a=arg0[0]:256f32 read b=arena0[1024+512*col]:256f32 write c=arg1[1024]:256f32 flops=8192 bytes=3072 ({{.*}}.mlir:[[# @LINE + 2]])
  // RANK-SAME:  16x16x16 read a=arg0[0]:256f32 read b=arena0[2048]:256f32 write c=arg1[1024]:256f32
  exec.gemm %x, %part, %half {m = 16, n = 16, k = 16, lda = 16, ldb = 16, ldc = 16, id = 0 : i32}
    : memref<512xf32>, memref<256xf32>, memref<256xf32>

  // clamp(190 - col * 96, 0, 96), then (col * 2 + row) * 100; a rank's are
  // numbers.
  %extent = exec.real_extent 96 of 190 over ["col"]
  %first = exec.part_offset 100 over ["col", "row"]
  // CHECK-NEXT: 1 compute: twice extent=4 grain=2 scalar=clamp(190+-96*col, 0, 96) scalar=100*row+200*col scalar=0.5 read arg0[0]:512f32 write arena0[1024]:512f32 bytes=4096
  // RANK-NEXT:  1 compute: twice extent=4 grain=2 scalar=0 scalar=500 scalar=0.5 read arg0[0]:512f32 write arena0[1024]:512f32
  %scale = arith.constant 0.5 : f32
  exec.launch @twice extent 4 grain 2 (read %x : memref<512xf32>, write %slot : memref<512xf32>)
    scalars (%extent, %first, %scale : i64, i64, f32) {id = 1 : i32}

  // A collective is on the queue of its mesh axis and comes after what wrote
  // where it writes. The wait has its number.
  %panel = exec.select_rank "row" is 1, %x, %slot : memref<512xf32>
  // CHECK-NEXT: 2 row after 1: broadcast root=1 read src=arg0[0]:512f32 write dst=arena0[1024]:512f32
  %token = exec.collective_start broadcast sum over "row", %x to %slot
    {root = 1, outer = 1, inner = 512, src_ld = 512, dst_ld = 512, id = 2 : i32} : memref<512xf32>, memref<512xf32>
  // CHECK-NEXT: 3 compute: wait for 2
  // RANK:       3 compute: wait for 2
  exec.wait %token {id = 3 : i32}

  // The root's panel is used in place.
  // CHECK-NEXT: 4 compute: copy read src=(row=1 ? arg0[0] : arena0[1024]):512f32 write dst=arg1[0]:512f32
  // RANK-NEXT:  4 compute: copy read src=arg0[0]:512f32 write dst=arg1[0]:512f32
  exec.copy %y from %panel : memref<512xf32> {rows = 1, cols = 512, src_ld = 512, dst_ld = 512, id = 4 : i32}
    : memref<512xf32>
  // A matrix with gaps: rows, columns and, from one row to the next, elements.
  // CHECK-NEXT: 5 compute: copy read src=arg1[0]:480f32 write dst=arena0[1024]:4x120/128f32 bytes=3840
  exec.copy %slot from %y : memref<512xf32> {rows = 4, cols = 120, src_ld = 120, dst_ld = 128, id = 5 : i32}
    : memref<512xf32>
  // CHECK-NEXT: 6 compute: fill write dst=arena0[1024]:512f32
  exec.copy %slot {rows = 1, cols = 512, src_ld = 0, dst_ld = 512, id = 6 : i32} : memref<512xf32>

  // What an arena holds, and when. A collective's destination lives until the wait, and what
  // nothing touches is not listed.
  // CHECK-NEXT: 7 row after 4: reduce root=0 read src=arg1[0]:512f32 write dst=arena0[4096]:512f32
  // CHECK-NEXT: 8 compute: wait for 7
  // CHECK-NEXT: arena0[1024]: 2048 bytes alive from 0 to 6 activation ({{.*}}.mlir:
  // CHECK-NEXT: arena0[4096]: 2048 bytes alive from 7 to 8 workspace "partial panel" = h.0.up:0, h.0.gelu:0 ({{.*}}.mlir:
  // CHECK-NOT:  arena0
  %sum = exec.arena_slot %arena[4096] "workspace" {name = "partial panel", values = ["h.0.up:0", "h.0.gelu:0"]} : memref<8192xi8> to memref<512xf32>
  %unused = exec.arena_slot %arena[6144] "workspace" : memref<8192xi8> to memref<512xf32>
  %last = exec.collective_start reduce sum over "row", %y to %sum
    {root = 0, outer = 1, inner = 512, src_ld = 512, dst_ld = 512, id = 7 : i32} : memref<512xf32>, memref<512xf32>
  exec.wait %last {id = 8 : i32}
  return
}

func.func private @twice(%begin: index, %end: index, %x: memref<512xf32>, %y: memref<512xf32>,
                         %extent: i64, %first: i64, %scale: f32) attributes {exec.kernel} {
  return
}
