// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-place-buffers,optimus-order-commands,optimus-verify-exec))' | FileCheck %s
// RUN: optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-place-buffers,optimus-order-commands),optimus-print-commands)' -o /dev/null | FileCheck %s --check-prefix=TABLE

// An activation goes to the host's memory and comes back. Each space has an
// arena; copies between them run beside computation, and a reuse of the memory
// that they read waits for them.

// CHECK-LABEL: func.func @offload(
// CHECK-SAME:    %[[DEVICE:.*]]: memref<256xi8>, %[[HOST:.*]]: memref<256xi8, #exec<space host>>
// CHECK-SAME:    exec.arena_bytes = 256
func.func @offload(%x: memref<64xf32>, %y: memref<64xf32>) {
  // CHECK: exec.arena_slot %[[DEVICE]][0] "activation"
  %a = exec.alloc "activation" : memref<64xf32>
  // CHECK: exec.arena_slot %[[HOST]][0] "offloaded" : memref<256xi8, #exec<space host>> to memref<64xf32, #exec<space host>>
  %h = exec.alloc "offloaded" : memref<64xf32, #exec<space host>>
  // TABLE: function offload: arena0 of 256 bytes (device), arena1 of 256 bytes (host)
  // TABLE: 0 compute: copy
  exec.copy %a from %x : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64, id = 0 : i32} : memref<64xf32>
  // TABLE: 1 copies after 0: copy read src=arena0[0]:64f32 write dst=arena1[0]:64f32
  exec.copy %h from %a : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64, id = 1 : i32} : memref<64xf32, #exec<space host>>
  %b = exec.alloc "activation" : memref<64xf32>
  // TABLE: 2 compute after 1: fill
  exec.copy %b {rows = 1, cols = 64, src_ld = 0, dst_ld = 64, id = 2 : i32} : memref<64xf32>
  %c = exec.alloc "activation" : memref<64xf32>
  // TABLE: 3 copies2 after 2: copy read src=arena1[0]:64f32 write dst=arena0[0]:64f32
  exec.copy %c from %h : memref<64xf32, #exec<space host>> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64, id = 3 : i32} : memref<64xf32>
  // TABLE: 4 compute after 3: copy
  exec.copy %y from %c : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64, id = 4 : i32} : memref<64xf32>
  return
}

// -----

// A write to part of what another wrote: who reads the rest waits for the first
// write, and who reads that part for the second alone.

// TABLE-LABEL: function parts:
func.func @parts(%x: memref<64xf32, #exec<space host>>, %y: memref<16xf32, #exec<space host>>) {
  %a = exec.alloc "activation" : memref<64xf32>
  %left = exec.slice %a[0] : memref<64xf32> to memref<16xf32>
  %middle = exec.slice %a[16] : memref<64xf32> to memref<16xf32>
  %right = exec.slice %a[32] : memref<64xf32> to memref<16xf32>
  // TABLE: 0 copies: copy
  exec.copy %a from %x : memref<64xf32, #exec<space host>> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64, id = 0 : i32} : memref<64xf32>
  // TABLE: 1 compute after 0: fill
  exec.copy %middle {rows = 1, cols = 16, src_ld = 0, dst_ld = 16, id = 1 : i32} : memref<16xf32>
  // TABLE: 2 copies2 after 0: copy read src=arena0[128]
  exec.copy %y from %right : memref<16xf32> {rows = 1, cols = 16, src_ld = 16, dst_ld = 16, id = 2 : i32} : memref<16xf32, #exec<space host>>
  // TABLE: 3 compute after 2: fill
  exec.copy %right {rows = 1, cols = 16, src_ld = 0, dst_ld = 16, id = 3 : i32} : memref<16xf32>
  // TABLE: 4 copies2: copy read src=arena0[0]
  exec.copy %y from %left : memref<16xf32> {rows = 1, cols = 16, src_ld = 16, dst_ld = 16, id = 4 : i32} : memref<16xf32, #exec<space host>>
  // TABLE: 5 copies2 after 1: copy read src=arena0[64]
  exec.copy %y from %middle : memref<16xf32> {rows = 1, cols = 16, src_ld = 16, dst_ld = 16, id = 5 : i32} : memref<16xf32, #exec<space host>>
  return
}
