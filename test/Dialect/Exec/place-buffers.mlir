// RUN: optimus-opt %s --optimus-place-buffers --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-place-buffers=no-reuse | FileCheck %s --check-prefix=ALONE

optimus.mesh @mesh <["data" = 1, "row" = 2, "col" = 3]>

func.func private @k(index, index, memref<64xf32>, memref<64xf32>)

// %x dies where %z is born, so both can have one place; %y is alive with both.
// CHECK-LABEL: func.func @reuse(
// CHECK-SAME: %[[ARENA:.*]]: memref<512xi8>, %{{.*}}: memref<64xf32> {optimus.binding = "tokens"}, %{{.*}}: memref<64xf32>) attributes {
// CHECK-SAME: exec.arena_bytes = 512 : i64, exec.commands = 4 : i64, exec.communication = [{axis = "row", bytes = 0 : i64, messages = 0 : i64}, {axis = "col", bytes = 0 : i64, messages = 0 : i64}]
// CHECK-SAME: exec.lower_bound_bytes = 512 : i64, exec.peak_bytes = {activation = 256 : i64, gradient = 256 : i64}
// CHECK: %[[X:.*]] = exec.arena_slot %[[ARENA]][[[AT:.*]]] "activation" {name = "x"}
// CHECK: exec.launch {{.*}} write %[[X]]
// CHECK: %[[Y:.*]] = exec.arena_slot
// CHECK: exec.launch {{.*}}(read %[[X]] : memref<64xf32>, write %[[Y]]
// CHECK: %[[Z:.*]] = exec.arena_slot %[[ARENA]][[[AT]]] "activation" : memref<512xi8> to memref<64xf32>
// CHECK: exec.launch {{.*}}(read %[[Y]] : memref<64xf32>, write %[[Z]]
// CHECK: exec.launch {{.*}}(read %[[Z]]
// CHECK-NOT: unused
// ALONE-LABEL: func.func @reuse(
// ALONE-SAME: memref<768xi8>
func.func @reuse(%in: memref<64xf32> {optimus.binding = "tokens"}, %out: memref<64xf32>) {
  %x = exec.alloc "activation" {name = "x"} : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<64xf32>, write %x : memref<64xf32>)
  %y = exec.alloc "gradient" : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %x : memref<64xf32>, write %y : memref<64xf32>)
  %z = exec.alloc "activation" : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %y : memref<64xf32>, write %z : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %z : memref<64xf32>, write %out : memref<64xf32>)
  %unused = exec.alloc "activation" {name = "unused"} : memref<64xf32>
  %view = exec.slice %unused[0] : memref<64xf32> to memref<8xf32>
  return
}

// A buffer lives as long as a view of it.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: memref<768xi8>
func.func @views(%in: memref<64xf32>, %out: memref<64xf32>) {
  %x = exec.alloc "activation" : memref<128xf32>
  %half = exec.slice %x[64] : memref<128xf32> to memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<64xf32>, write %half : memref<64xf32>)
  %mine = exec.select_rank "row" is 0, %in, %half : memref<64xf32>
  %y = exec.alloc "activation" : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<64xf32>, write %y : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %y : memref<64xf32>, write %out : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %mine : memref<64xf32>, write %out : memref<64xf32>)
  return
}

// What a collective touches lives until the wait, so %z cannot lie in %x. Of 6
// ranks, "col" has 2 groups of 3: an all_reduce of 256 bytes counts 2·2·256 in
// each, an all_gather to 3·64 bytes 2·192, a broadcast of 128 bytes 2·128; in 3 groups
// of 2, "row" scatters 256 bytes.
// CHECK-LABEL: func.func @collectives(
// CHECK-SAME: memref<768xi8>
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 768 : i64, messages = 1 : i64}, {axis = "col", bytes = 3328 : i64, messages = 3 : i64}]
func.func @collectives(%in: memref<64xf32>, %out: memref<64xf32>) {
  %x = exec.alloc "workspace" : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<64xf32>, write %x : memref<64xf32>)
  %y = exec.alloc "workspace" : memref<64xf32>
  %0 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  %z = exec.alloc "workspace" : memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %in : memref<64xf32>, write %z : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %z : memref<64xf32>, write %out : memref<64xf32>)
  exec.wait %0
  exec.launch @k extent 1 grain 1 (read %y : memref<64xf32>, write %out : memref<64xf32>)
  %1 = exec.collective_start all_gather sum over "col", %in to %out {outer = 2 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 24 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %1
  %2 = exec.collective_start broadcast sum over "col", %in to %out {outer = 4 : i64, inner = 8 : i64, src_ld = 16 : i64, dst_ld = 8 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %2
  %3 = exec.collective_start reduce_scatter sum over "row", %in to %out {outer = 1 : i64, inner = 32 : i64, src_ld = 64 : i64, dst_ld = 32 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %3
  return
}

func.func private @narrow(index, index, memref<64xf32>, memref<64xbf16>)

// Elements of half the size: half the memory, and half the bytes move.
// CHECK-LABEL: func.func @narrow_collectives(
// CHECK-SAME: memref<256xi8>
// CHECK-SAME: exec.communication = [{axis = "row", bytes = 384 : i64, messages = 1 : i64}, {axis = "col", bytes = 1024 : i64, messages = 1 : i64}]
func.func @narrow_collectives(%in: memref<64xf32>, %out: memref<64xbf16>) {
  %x = exec.alloc "workspace" : memref<64xbf16>
  exec.launch @narrow extent 1 grain 1 (read %in : memref<64xf32>, write %x : memref<64xbf16>)
  %y = exec.alloc "workspace" : memref<64xbf16>
  %0 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xbf16>, memref<64xbf16>
  exec.wait %0
  %1 = exec.collective_start reduce_scatter sum over "row", %y to %out {outer = 1 : i64, inner = 32 : i64, src_ld = 64 : i64, dst_ld = 32 : i64} : memref<64xbf16>, memref<64xbf16>
  exec.wait %1
  return
}

// A function without commands is a kernel, not a device program.
// CHECK-LABEL: func.func @no_program(%{{.*}}: memref<8xf32>) {
func.func @no_program(%b: memref<8xf32>) {
  return
}
