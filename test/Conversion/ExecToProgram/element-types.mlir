// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-print-commands)' -o /dev/null | FileCheck %s

// Bytes and offsets are those of the elements; an arena has elements of several
// types.

optimus.mesh @mesh <["row" = 2, "col" = 3]>

// CHECK:      function narrow: arena0 of 4096 bytes (device)
func.func @narrow(%arena: memref<4096xi8>, %x: memref<256xbf16>, %lse: memref<16xf32>) {
  %slot = exec.arena_slot %arena[1024] "activation" : memref<4096xi8> to memref<512xbf16>
  %sum = exec.arena_slot %arena[2048] "workspace" : memref<4096xi8> to memref<256xf32>
  %part = exec.slice_rank %slot over ["col"] stride 128 : memref<512xbf16> to memref<256xbf16>
  %half = exec.slice %slot[256] : memref<512xbf16> to memref<256xbf16>

  // CHECK-NEXT: 0 compute: gemm 16x16x16 read a=arg0[0]:256bf16 read b=arena0[1024+256*col]:256bf16 write c=arena0[2048]:256f32 flops=8192 bytes=2048
  exec.gemm %x, %part, %sum {m = 16, n = 16, k = 16, lda = 16, ldb = 16, ldc = 16, id = 0 : i32}
    : memref<256xbf16>, memref<256xbf16>, memref<256xf32>
  // CHECK-NEXT: 1 compute: twice extent=4 grain=2 read arena0[2048]:256f32 write arena0[1536]:256bf16 bytes=1536
  exec.launch @twice extent 4 grain 2 (read %sum : memref<256xf32>, write %half : memref<256xbf16>) {id = 1 : i32}
  // CHECK-NEXT: 2 compute: copy read src=arg0[0]:240bf16 write dst=arena0[1024]:2x120/128bf16 bytes=960
  exec.copy %slot from %x : memref<256xbf16> {rows = 2, cols = 120, src_ld = 120, dst_ld = 128, id = 2 : i32}
    : memref<512xbf16>
  // CHECK-NEXT: 3 col after 2: all_reduce read src=arena0[1024]:256bf16 write dst=arena0[1024]:256bf16
  %token = exec.collective_start all_reduce sum over "col", %slot to %slot
    {outer = 1, inner = 256, src_ld = 256, dst_ld = 256, id = 3 : i32} : memref<512xbf16>, memref<512xbf16>
  // CHECK-NEXT: 4 compute: wait for 3
  exec.wait %token {id = 4 : i32}
  return
}

func.func private @twice(%begin: index, %end: index, %x: memref<256xf32>, %y: memref<256xbf16>) attributes {exec.kernel} {
  return
}
