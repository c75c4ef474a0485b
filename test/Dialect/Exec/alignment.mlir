// RUN: optimus-opt %s --optimus-place-buffers --optimus-verify-exec --verify-roundtrip | FileCheck %s

func.func private @k(index, index, memref<8xf32>, memref<8xf32>)

// A buffer begins at a multiple of its alignment, and takes up so many bytes.
// CHECK-LABEL: func.func @aligned(
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<320xi8>
// CHECK-SAME: exec.lower_bound_bytes = 320 : i64, exec.peak_bytes = {activation = 64 : i64, workspace = 256 : i64}
// CHECK: exec.arena_slot %[[ARENA]][256] "activation" : memref<320xi8> to memref<8xf32>
// CHECK: exec.arena_slot %[[ARENA]][0] "workspace" {alignment = 256 : i64} : memref<320xi8> to memref<8xf32>
func.func @aligned(%in: memref<8xf32>, %out: memref<8xf32>) {
  %x = exec.alloc "activation" : memref<8xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<8xf32>, write %x : memref<8xf32>)
  %y = exec.alloc "workspace" {alignment = 256 : i64} : memref<8xf32>
  exec.launch @k extent 1 grain 1 (read %x : memref<8xf32>, write %y : memref<8xf32>)
  exec.launch @k extent 1 grain 1 (read %y : memref<8xf32>, write %out : memref<8xf32>)
  return
}
