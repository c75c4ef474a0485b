// RUN: %optimus-opt %s --optimus-carry-gathers | FileCheck %s

optimus.mesh @mesh <["data" = 2]>

// The step waits where it reads a parameter, not where it has gathered it. What
// is read again in the step stays.

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME:    %[[W:arg0]]: memref<64xf32>
// CHECK-SAME:    %[[P:arg4]]: memref<32xf32> {exec.access = "write", exec.local_type = tensor<32xf32, {{.*}}>, optimus.binding = #optimus.buffer<role = "updated", of = "w", lifetime = state>}
// CHECK-NEXT:    exec.copy %arg1 from %arg3
// CHECK-NEXT:    exec.wait_carried 1, %[[W]], %[[P]] {id = 1 : i32} : memref<64xf32>, memref<32xf32>
// CHECK-NEXT:    exec.copy %arg3 from %[[W]]
// CHECK-NEXT:    exec.copy %[[P]] from %arg3
// CHECK-NEXT:    %{{.*}} = exec.collective_start {{ *}}all_gather {{ *}}sum over "data", %[[P]] to %[[W]] {carried = 1 : i32
// CHECK-NEXT:    %[[Q:.*]] = exec.alloc
// CHECK-NEXT:    exec.copy
// CHECK-NEXT:    %{{.*}} = exec.collective_start {{.*}}%[[Q]] to %arg1 {dst_ld = 64 : i64, id
// CHECK-NEXT:    exec.wait
// CHECK-NEXT:    exec.copy %arg3 from %arg1
// CHECK-NEXT:    return
func.func @train_step(%w: memref<64xf32> {exec.access = "update", optimus.param = "w"},
                      %again: memref<64xf32> {exec.access = "update", optimus.param = "again"},
                      %unused: memref<64xf32> {exec.access = "read", optimus.param = "unused"},
                      %x: memref<64xf32>)
    attributes {optimus.entry = #optimus.entry<train>} {
  exec.copy %again from %x : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  exec.copy %x from %w : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  %p = exec.alloc "gradient" : memref<32xf32>
  exec.copy %p from %x : memref<64xf32> {rows = 1, cols = 32, src_ld = 64, dst_ld = 32} : memref<32xf32>
  %t = exec.collective_start all_gather sum over "data", %p to %w {outer = 1, inner = 32, src_ld = 32, dst_ld = 64} : memref<32xf32>, memref<64xf32>
  %q = exec.alloc "gradient" : memref<32xf32>
  exec.copy %q from %x : memref<64xf32> {rows = 1, cols = 32, src_ld = 64, dst_ld = 32} : memref<32xf32>
  %u = exec.collective_start all_gather sum over "data", %q to %again {outer = 1, inner = 32, src_ld = 32, dst_ld = 64} : memref<32xf32>, memref<64xf32>
  exec.wait %t
  exec.wait %u
  exec.copy %x from %again : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  return
}

// With microbatches, all functions of the step wait; the numbers are the same.

// CHECK-LABEL: func.func @accumulate(
// CHECK-NEXT:    exec.wait_carried 1, %arg0 {id = 0 : i32} : memref<64xf32>
// CHECK-NEXT:    exec.copy %arg1 from %arg0
func.func @accumulate(%w: memref<64xf32> {exec.access = "read", optimus.param = "w"}, %x: memref<64xf32>)
    attributes {optimus.entry = #optimus.entry<accumulate>} {
  exec.copy %x from %w : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  return
}

// CHECK-LABEL: func.func @update(
// CHECK-NEXT:    exec.wait_carried 1, %arg0, %arg2
// CHECK-NEXT:    exec.copy %arg2 from %arg1
// CHECK-NEXT:    %{{.*}} = exec.collective_start {{.*}}carried = 1
// CHECK-NEXT:    return
func.func @update(%w: memref<64xf32> {exec.access = "update", optimus.param = "w"}, %x: memref<64xf32>)
    attributes {optimus.entry = #optimus.entry<update>} {
  %p = exec.alloc "gradient" : memref<32xf32>
  exec.copy %p from %x : memref<64xf32> {rows = 1, cols = 32, src_ld = 64, dst_ld = 32} : memref<32xf32>
  %t = exec.collective_start all_gather sum over "data", %p to %w {outer = 1, inner = 32, src_ld = 32, dst_ld = 64} : memref<32xf32>, memref<64xf32>
  exec.wait %t
  return
}

// Others do not.

// CHECK-LABEL: func.func @eval_step(
// CHECK-NEXT:    exec.copy
func.func @eval_step(%w: memref<64xf32> {exec.access = "read", optimus.param = "w"}, %x: memref<64xf32>)
    attributes {optimus.entry = #optimus.entry<eval>} {
  exec.copy %x from %w : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  return
}
