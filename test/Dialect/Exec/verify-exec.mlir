// RUN: optimus-opt %s --optimus-verify-exec | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 2]>

func.func private @k(index, index, memref<64xf32>, memref<64xf32>)

// Between start and wait the source may be read, and on the root of a broadcast
// that receives in place so may what is the destination there.
// CHECK-LABEL: func.func @under_way
func.func @under_way(%own: memref<64xf32>, %received: memref<64xf32>, %out: memref<64xf32>) {
  %panel = exec.select_rank "col" is 1, %own, %received : memref<64xf32>
  %0 = exec.collective_start broadcast sum over "col", %own to %panel {root = 1 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64, id = 0 : i32} : memref<64xf32>, memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %own : memref<64xf32>, write %out : memref<64xf32>) {id = 1 : i32}
  exec.wait %0 {id = 2 : i32}
  return
}

// Other parts of the same buffer are free, and so is a slot that is not alive.
// CHECK-LABEL: func.func @parts
func.func @parts(%arena: memref<256xi8>, %in: memref<128xf32>, %out: memref<64xf32>) {
  %first = exec.slice %in[0] : memref<128xf32> to memref<64xf32>
  %second = exec.slice %in[64] : memref<128xf32> to memref<64xf32>
  %0 = exec.collective_start all_reduce sum over "col", %first to %first {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %out : memref<64xf32>, write %second : memref<64xf32>)
  exec.wait %0
  %x = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %second : memref<64xf32>, write %x : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %x : memref<64xf32>, write %out : memref<64xf32>)
  %y = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %second : memref<64xf32>, write %y : memref<64xf32>)
  return
}

// Columns of one matrix are apart, and collectives of other axes in any order.
// CHECK-LABEL: func.func @columns
func.func @columns(%a: memref<64xf32>, %b: memref<128xf32>, %c: memref<64xf32>) {
  %left = exec.slice %b[0] : memref<128xf32> to memref<120xf32>
  %right = exec.slice %b[8] : memref<128xf32> to memref<120xf32>
  %0 = exec.collective_start reduce sum over "row", %a to %left {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 16 : i64} : memref<64xf32>, memref<120xf32>
  %1 = exec.collective_start reduce sum over "col", %a to %right {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 16 : i64} : memref<64xf32>, memref<120xf32>
  exec.wait %1
  exec.copy %c from %right : memref<120xf32> {rows = 8 : i64, cols = 8 : i64, src_ld = 16 : i64, dst_ld = 8 : i64} : memref<64xf32>
  exec.wait %0
  return
}

// Attention touches rows of its heads alone, and not what lies behind each.
// CHECK-LABEL: func.func @heads
func.func @heads(%a: memref<64xf32>, %b: memref<192xf32>, %out: memref<64xf32>, %lse: memref<16xf32>) {
  %q = exec.slice %b[0] : memref<192xf32> to memref<192xf32>
  %k = exec.slice %b[8] : memref<192xf32> to memref<184xf32>
  %v = exec.slice %b[12] : memref<192xf32> to memref<180xf32>
  %rest = exec.slice %b[16] : memref<192xf32> to memref<176xf32>
  %0 = exec.collective_start reduce sum over "row", %a to %rest {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 24 : i64} : memref<64xf32>, memref<176xf32>
  exec.attention %q, %k, %v, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64, causal} : memref<192xf32>, memref<184xf32>, memref<180xf32>, memref<64xf32>, memref<16xf32>
  exec.wait %0
  return
}
