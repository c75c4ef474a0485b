// RUN: %optimus-opt %s --canonicalize --cse --loop-invariant-code-motion --canonicalize --cse | FileCheck %s

// Messages, which all ranks of an axis must agree on, and memory that is given
// away in between. MLIR's own passes drop, merge and move no command, and merge
// no two buffers, though they lie at one place; numbers and views they do.

optimus.mesh @mesh <["row" = 2, "col" = 2]>

// What a collective makes is used by nobody, and one is started twice.
// CHECK-LABEL: func.func @collectives
// CHECK-NEXT: exec.collective_start
// CHECK-NEXT: exec.collective_start
// CHECK-NEXT: exec.wait
// CHECK-NEXT: exec.wait
// CHECK-NEXT: exec.alloc
// CHECK-NEXT: exec.collective_start
// CHECK-NEXT: exec.wait
// CHECK-NEXT: return
func.func @collectives(%x: memref<4xf32>, %y: memref<4xf32>) {
  %0 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  %1 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %0
  exec.wait %1
  %nobody = exec.alloc "workspace" : memref<4xf32>
  %2 = exec.collective_start all_reduce sum over "row", %x to %nobody {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %2
  return
}

// One place, two buffers: taken for one, it would be alive while %b is.
// CHECK-LABEL: func.func @slots
// CHECK-NEXT: %[[A:.*]] = exec.arena_slot
// CHECK-NEXT: %[[B:.*]] = exec.arena_slot
// CHECK-NEXT: %[[C:.*]] = exec.arena_slot
// CHECK-NEXT: exec.copy %[[A]] {
// CHECK-NEXT: exec.copy %[[B]] {
// CHECK-NEXT: exec.copy %[[C]] {
// CHECK-NEXT: exec.copy %[[C]] {
// CHECK-NEXT: return
func.func @slots(%arena: memref<64xi8>) {
  %a = exec.arena_slot %arena[0] "workspace" : memref<64xi8> to memref<4xf32>
  %b = exec.arena_slot %arena[0] "activation" : memref<64xi8> to memref<4xf32>
  %c = exec.arena_slot %arena[0] "workspace" : memref<64xi8> to memref<4xf32>
  exec.copy %a {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  exec.copy %b {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  exec.copy %c {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  exec.copy %c {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  return
}

func.func private @k(index, index, memref<4xf32>, memref<4xf32>, i64)

// CHECK-LABEL: func.func @numbers
// CHECK-NEXT: exec.part_offset
// CHECK-NEXT: exec.slice
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.launch
// CHECK-NEXT: return
func.func @numbers(%x: memref<8xf32>, %y: memref<4xf32>) {
  %0 = exec.part_offset 4 over ["col"]
  %1 = exec.part_offset 4 over ["col"]
  %2 = exec.slice %x[4] : memref<8xf32> to memref<4xf32>
  %3 = exec.slice %x[4] : memref<8xf32> to memref<4xf32>
  exec.launch @k extent 1 grain 1 (read %2 : memref<4xf32>, write %y : memref<4xf32>) scalars (%0 : i64)
  exec.launch @k extent 1 grain 1 (read %3 : memref<4xf32>, write %y : memref<4xf32>) scalars (%1 : i64)
  return
}

// CHECK-LABEL: func.func @loop
// CHECK: scf.for
// CHECK-NEXT: exec.collective_start
// CHECK-NEXT: exec.wait
func.func @loop(%x: memref<4xf32>, %y: memref<4xf32>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    %0 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
    exec.wait %0
  }
  return
}
