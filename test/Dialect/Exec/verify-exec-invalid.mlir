// RUN: optimus-opt %s --optimus-verify-exec --split-input-file --verify-diagnostics

optimus.mesh @mesh <["row" = 2]>
func.func private @k(index, index, memref<64xf32>, memref<64xf32>)
func.func @v1_source(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  // expected-error @below {{V1: writes the source of a collective that is under way}}
  exec.launch @k extent 1 grain 1 (read %c : memref<64xf32>, write %a : memref<64xf32>)
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func private @k(index, index, memref<64xf32>, memref<64xf32>)
func.func @v1_destination(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  %mine = exec.select_rank "row" is 1, %c, %b : memref<64xf32>
  // expected-error @below {{V1: touches the destination of a collective that is under way}}
  exec.launch @k extent 1 grain 1 (read %mine : memref<64xf32>, write %c : memref<64xf32>)
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @v1_carried(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %a {carried = 1 : i32, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  // expected-error @below {{V1: writes the source of a collective that is under way}}
  exec.copy %a from %b : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @v2(%a: memref<64xf32>, %condition: i1) {
  // expected-error @below {{V2: its exec.wait does not follow in the same block}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %a {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  scf.if %condition {
    exec.wait %0
  }
  return
}

// -----

func.func private @k(index, index, memref<64xf32>, memref<64xf32>)
func.func @v3(%arena: memref<512xi8>, %a: memref<64xf32>) {
  // expected-note @below {{the other buffer}}
  %x = exec.arena_slot %arena[0] "activation" : memref<512xi8> to memref<64xf32>
  // expected-error @below {{V3: overlaps a buffer that is alive at the same time}}
  %y = exec.arena_slot %arena[192] "activation" : memref<512xi8> to memref<64xf32>
  exec.launch @k extent 1 grain 1 (read %a : memref<64xf32>, write %x : memref<64xf32>)
  exec.launch @k extent 1 grain 1 (read %x : memref<64xf32>, write %y : memref<64xf32>)
  return
}

// -----

func.func private @k(index, index, memref<64xf32>, memref<64xf32>)
func.func @v4_order(%a: memref<64xf32>, %b: memref<64xf32>) {
  exec.launch @k extent 1 grain 1 (read %a : memref<64xf32>, write %b : memref<64xf32>) {id = 0 : i32}
  // expected-error @below {{V4: expected number 1, found 2}}
  exec.launch @k extent 1 grain 1 (read %a : memref<64xf32>, write %b : memref<64xf32>) {id = 2 : i32}
  return
}

// -----

func.func private @k(index, index, memref<64xf32>, memref<64xf32>)
func.func @v4_missing(%a: memref<64xf32>, %b: memref<64xf32>) {
  exec.launch @k extent 1 grain 1 (read %a : memref<64xf32>, write %b : memref<64xf32>)
  // expected-error @below {{V4: expected no number, found 0}}
  exec.launch @k extent 1 grain 1 (read %a : memref<64xf32>, write %b : memref<64xf32>) {id = 0 : i32}
  return
}

// -----

// Not only the command after the start counts, and waits in between end
// nothing but their own collectives.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @v1_apart(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %d: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  %1 = exec.collective_start all_reduce sum over "col", %c to %d {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %1
  exec.copy %c from %d : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  // expected-error @below {{V1: writes the source of a collective that is under way}}
  exec.copy %a from %d : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  exec.wait %0
  return
}

// -----

// A collective that starts counts as what it reads and writes.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @v1_collective(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  // expected-error @below {{V1: touches the destination of a collective that is under way}}
  %1 = exec.collective_start all_reduce sum over "col", %b to %c {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  exec.wait %1
  return
}

// -----

// Columns of one matrix overlap when they are not apart.
optimus.mesh @mesh <["row" = 2]>
func.func @v1_columns(%a: memref<64xf32>, %b: memref<120xf32>, %c: memref<64xf32>) {
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start reduce sum over "row", %a to %b {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 16 : i64} : memref<64xf32>, memref<120xf32>
  %next = exec.slice %b[7] : memref<120xf32> to memref<113xf32>
  // expected-error @below {{V1: touches the destination of a collective that is under way}}
  exec.copy %c from %next : memref<113xf32> {rows = 7 : i64, cols = 8 : i64, src_ld = 16 : i64, dst_ld = 8 : i64} : memref<64xf32>
  exec.wait %0
  return
}

// -----

// As do the rows of an attention's keys, and what is written among them.
optimus.mesh @mesh <["row" = 2]>
func.func @v1_heads(%a: memref<64xf32>, %b: memref<192xf32>, %out: memref<64xf32>, %lse: memref<16xf32>) {
  %k = exec.slice %b[8] : memref<192xf32> to memref<184xf32>
  %v = exec.slice %b[12] : memref<192xf32> to memref<180xf32>
  %rest = exec.slice %b[15] : memref<192xf32> to memref<177xf32>
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start reduce sum over "row", %a to %rest {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 24 : i64} : memref<64xf32>, memref<177xf32>
  // expected-error @below {{V1: touches the destination of a collective that is under way}}
  exec.attention %b, %k, %v, %out, %lse {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 1 : i64, head_dim = 4 : i64, q_ld = 24 : i64, kv_ld = 24 : i64, causal} : memref<192xf32>, memref<184xf32>, memref<180xf32>, memref<64xf32>, memref<16xf32>
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @v5(%a: memref<1xf32>, %b: memref<65xf32>) {
  %b0 = exec.slice %b[0] : memref<65xf32> to memref<1xf32>
  // expected-note @below {{the collective started here}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b0 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b1 = exec.slice %b[1] : memref<65xf32> to memref<1xf32>
  %1 = exec.collective_start all_reduce sum over "row", %a to %b1 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b2 = exec.slice %b[2] : memref<65xf32> to memref<1xf32>
  %2 = exec.collective_start all_reduce sum over "row", %a to %b2 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b3 = exec.slice %b[3] : memref<65xf32> to memref<1xf32>
  %3 = exec.collective_start all_reduce sum over "row", %a to %b3 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b4 = exec.slice %b[4] : memref<65xf32> to memref<1xf32>
  %4 = exec.collective_start all_reduce sum over "row", %a to %b4 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b5 = exec.slice %b[5] : memref<65xf32> to memref<1xf32>
  %5 = exec.collective_start all_reduce sum over "row", %a to %b5 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b6 = exec.slice %b[6] : memref<65xf32> to memref<1xf32>
  %6 = exec.collective_start all_reduce sum over "row", %a to %b6 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b7 = exec.slice %b[7] : memref<65xf32> to memref<1xf32>
  %7 = exec.collective_start all_reduce sum over "row", %a to %b7 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b8 = exec.slice %b[8] : memref<65xf32> to memref<1xf32>
  %8 = exec.collective_start all_reduce sum over "row", %a to %b8 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b9 = exec.slice %b[9] : memref<65xf32> to memref<1xf32>
  %9 = exec.collective_start all_reduce sum over "row", %a to %b9 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b10 = exec.slice %b[10] : memref<65xf32> to memref<1xf32>
  %10 = exec.collective_start all_reduce sum over "row", %a to %b10 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b11 = exec.slice %b[11] : memref<65xf32> to memref<1xf32>
  %11 = exec.collective_start all_reduce sum over "row", %a to %b11 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b12 = exec.slice %b[12] : memref<65xf32> to memref<1xf32>
  %12 = exec.collective_start all_reduce sum over "row", %a to %b12 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b13 = exec.slice %b[13] : memref<65xf32> to memref<1xf32>
  %13 = exec.collective_start all_reduce sum over "row", %a to %b13 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b14 = exec.slice %b[14] : memref<65xf32> to memref<1xf32>
  %14 = exec.collective_start all_reduce sum over "row", %a to %b14 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b15 = exec.slice %b[15] : memref<65xf32> to memref<1xf32>
  %15 = exec.collective_start all_reduce sum over "row", %a to %b15 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b16 = exec.slice %b[16] : memref<65xf32> to memref<1xf32>
  %16 = exec.collective_start all_reduce sum over "row", %a to %b16 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b17 = exec.slice %b[17] : memref<65xf32> to memref<1xf32>
  %17 = exec.collective_start all_reduce sum over "row", %a to %b17 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b18 = exec.slice %b[18] : memref<65xf32> to memref<1xf32>
  %18 = exec.collective_start all_reduce sum over "row", %a to %b18 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b19 = exec.slice %b[19] : memref<65xf32> to memref<1xf32>
  %19 = exec.collective_start all_reduce sum over "row", %a to %b19 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b20 = exec.slice %b[20] : memref<65xf32> to memref<1xf32>
  %20 = exec.collective_start all_reduce sum over "row", %a to %b20 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b21 = exec.slice %b[21] : memref<65xf32> to memref<1xf32>
  %21 = exec.collective_start all_reduce sum over "row", %a to %b21 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b22 = exec.slice %b[22] : memref<65xf32> to memref<1xf32>
  %22 = exec.collective_start all_reduce sum over "row", %a to %b22 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b23 = exec.slice %b[23] : memref<65xf32> to memref<1xf32>
  %23 = exec.collective_start all_reduce sum over "row", %a to %b23 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b24 = exec.slice %b[24] : memref<65xf32> to memref<1xf32>
  %24 = exec.collective_start all_reduce sum over "row", %a to %b24 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b25 = exec.slice %b[25] : memref<65xf32> to memref<1xf32>
  %25 = exec.collective_start all_reduce sum over "row", %a to %b25 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b26 = exec.slice %b[26] : memref<65xf32> to memref<1xf32>
  %26 = exec.collective_start all_reduce sum over "row", %a to %b26 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b27 = exec.slice %b[27] : memref<65xf32> to memref<1xf32>
  %27 = exec.collective_start all_reduce sum over "row", %a to %b27 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b28 = exec.slice %b[28] : memref<65xf32> to memref<1xf32>
  %28 = exec.collective_start all_reduce sum over "row", %a to %b28 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b29 = exec.slice %b[29] : memref<65xf32> to memref<1xf32>
  %29 = exec.collective_start all_reduce sum over "row", %a to %b29 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b30 = exec.slice %b[30] : memref<65xf32> to memref<1xf32>
  %30 = exec.collective_start all_reduce sum over "row", %a to %b30 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b31 = exec.slice %b[31] : memref<65xf32> to memref<1xf32>
  %31 = exec.collective_start all_reduce sum over "row", %a to %b31 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b32 = exec.slice %b[32] : memref<65xf32> to memref<1xf32>
  %32 = exec.collective_start all_reduce sum over "row", %a to %b32 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b33 = exec.slice %b[33] : memref<65xf32> to memref<1xf32>
  %33 = exec.collective_start all_reduce sum over "row", %a to %b33 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b34 = exec.slice %b[34] : memref<65xf32> to memref<1xf32>
  %34 = exec.collective_start all_reduce sum over "row", %a to %b34 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b35 = exec.slice %b[35] : memref<65xf32> to memref<1xf32>
  %35 = exec.collective_start all_reduce sum over "row", %a to %b35 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b36 = exec.slice %b[36] : memref<65xf32> to memref<1xf32>
  %36 = exec.collective_start all_reduce sum over "row", %a to %b36 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b37 = exec.slice %b[37] : memref<65xf32> to memref<1xf32>
  %37 = exec.collective_start all_reduce sum over "row", %a to %b37 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b38 = exec.slice %b[38] : memref<65xf32> to memref<1xf32>
  %38 = exec.collective_start all_reduce sum over "row", %a to %b38 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b39 = exec.slice %b[39] : memref<65xf32> to memref<1xf32>
  %39 = exec.collective_start all_reduce sum over "row", %a to %b39 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b40 = exec.slice %b[40] : memref<65xf32> to memref<1xf32>
  %40 = exec.collective_start all_reduce sum over "row", %a to %b40 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b41 = exec.slice %b[41] : memref<65xf32> to memref<1xf32>
  %41 = exec.collective_start all_reduce sum over "row", %a to %b41 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b42 = exec.slice %b[42] : memref<65xf32> to memref<1xf32>
  %42 = exec.collective_start all_reduce sum over "row", %a to %b42 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b43 = exec.slice %b[43] : memref<65xf32> to memref<1xf32>
  %43 = exec.collective_start all_reduce sum over "row", %a to %b43 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b44 = exec.slice %b[44] : memref<65xf32> to memref<1xf32>
  %44 = exec.collective_start all_reduce sum over "row", %a to %b44 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b45 = exec.slice %b[45] : memref<65xf32> to memref<1xf32>
  %45 = exec.collective_start all_reduce sum over "row", %a to %b45 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b46 = exec.slice %b[46] : memref<65xf32> to memref<1xf32>
  %46 = exec.collective_start all_reduce sum over "row", %a to %b46 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b47 = exec.slice %b[47] : memref<65xf32> to memref<1xf32>
  %47 = exec.collective_start all_reduce sum over "row", %a to %b47 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b48 = exec.slice %b[48] : memref<65xf32> to memref<1xf32>
  %48 = exec.collective_start all_reduce sum over "row", %a to %b48 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b49 = exec.slice %b[49] : memref<65xf32> to memref<1xf32>
  %49 = exec.collective_start all_reduce sum over "row", %a to %b49 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b50 = exec.slice %b[50] : memref<65xf32> to memref<1xf32>
  %50 = exec.collective_start all_reduce sum over "row", %a to %b50 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b51 = exec.slice %b[51] : memref<65xf32> to memref<1xf32>
  %51 = exec.collective_start all_reduce sum over "row", %a to %b51 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b52 = exec.slice %b[52] : memref<65xf32> to memref<1xf32>
  %52 = exec.collective_start all_reduce sum over "row", %a to %b52 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b53 = exec.slice %b[53] : memref<65xf32> to memref<1xf32>
  %53 = exec.collective_start all_reduce sum over "row", %a to %b53 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b54 = exec.slice %b[54] : memref<65xf32> to memref<1xf32>
  %54 = exec.collective_start all_reduce sum over "row", %a to %b54 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b55 = exec.slice %b[55] : memref<65xf32> to memref<1xf32>
  %55 = exec.collective_start all_reduce sum over "row", %a to %b55 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b56 = exec.slice %b[56] : memref<65xf32> to memref<1xf32>
  %56 = exec.collective_start all_reduce sum over "row", %a to %b56 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b57 = exec.slice %b[57] : memref<65xf32> to memref<1xf32>
  %57 = exec.collective_start all_reduce sum over "row", %a to %b57 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b58 = exec.slice %b[58] : memref<65xf32> to memref<1xf32>
  %58 = exec.collective_start all_reduce sum over "row", %a to %b58 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b59 = exec.slice %b[59] : memref<65xf32> to memref<1xf32>
  %59 = exec.collective_start all_reduce sum over "row", %a to %b59 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b60 = exec.slice %b[60] : memref<65xf32> to memref<1xf32>
  %60 = exec.collective_start all_reduce sum over "row", %a to %b60 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b61 = exec.slice %b[61] : memref<65xf32> to memref<1xf32>
  %61 = exec.collective_start all_reduce sum over "row", %a to %b61 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b62 = exec.slice %b[62] : memref<65xf32> to memref<1xf32>
  %62 = exec.collective_start all_reduce sum over "row", %a to %b62 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b63 = exec.slice %b[63] : memref<65xf32> to memref<1xf32>
  %63 = exec.collective_start all_reduce sum over "row", %a to %b63 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  %b64 = exec.slice %b[64] : memref<65xf32> to memref<1xf32>
  // expected-error @below {{V5: starts while the collective that started 64 before it on axis "row" is under way}}
  %64 = exec.collective_start all_reduce sum over "row", %a to %b64 {outer = 1 : i64, inner = 1 : i64, src_ld = 1 : i64, dst_ld = 1 : i64} : memref<1xf32>, memref<1xf32>
  exec.wait %0
  exec.wait %1
  exec.wait %2
  exec.wait %3
  exec.wait %4
  exec.wait %5
  exec.wait %6
  exec.wait %7
  exec.wait %8
  exec.wait %9
  exec.wait %10
  exec.wait %11
  exec.wait %12
  exec.wait %13
  exec.wait %14
  exec.wait %15
  exec.wait %16
  exec.wait %17
  exec.wait %18
  exec.wait %19
  exec.wait %20
  exec.wait %21
  exec.wait %22
  exec.wait %23
  exec.wait %24
  exec.wait %25
  exec.wait %26
  exec.wait %27
  exec.wait %28
  exec.wait %29
  exec.wait %30
  exec.wait %31
  exec.wait %32
  exec.wait %33
  exec.wait %34
  exec.wait %35
  exec.wait %36
  exec.wait %37
  exec.wait %38
  exec.wait %39
  exec.wait %40
  exec.wait %41
  exec.wait %42
  exec.wait %43
  exec.wait %44
  exec.wait %45
  exec.wait %46
  exec.wait %47
  exec.wait %48
  exec.wait %49
  exec.wait %50
  exec.wait %51
  exec.wait %52
  exec.wait %53
  exec.wait %54
  exec.wait %55
  exec.wait %56
  exec.wait %57
  exec.wait %58
  exec.wait %59
  exec.wait %60
  exec.wait %61
  exec.wait %62
  exec.wait %63
  exec.wait %64
  return
}

// -----

// expected-error @below {{V6: expected an arena 'memref<128xi8>' as the first argument, as 'exec.arena_bytes' says, found 'memref<64xi8>'}}
func.func @v6_bytes(%arena: memref<64xi8>) attributes {exec.arena_bytes = 128 : i64} {
  return
}

// -----

func.func @v6_another(%arena: memref<64xi8>, %other: memref<64xi8>) attributes {exec.arena_bytes = 64 : i64} {
  // expected-error @below {{V6: is not in the arena, the function's first argument}}
  %0 = exec.arena_slot %other[0] "activation" : memref<64xi8> to memref<16xf32>
  return
}

// -----

// expected-error @below {{V7: expected 'exec.commands' to be 1, found 2 : i64}}
func.func @v7_commands(%b: memref<64xf32>) attributes {exec.commands = 2 : i64} {
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
// expected-error @below {{V7: expected 'exec.communication' to be [{axis = "row", bytes = 512 : i64, messages = 1 : i64}], found [{axis = "row", bytes = 511 : i64, messages = 1 : i64}]}}
func.func @v7_communication(%b: memref<64xf32>) attributes {exec.communication = [{axis = "row", bytes = 511 : i64, messages = 1 : i64}]} {
  %0 = exec.collective_start all_reduce sum over "row", %b to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}

// -----

optimus.mesh @mesh <["row" = 65536]>
// expected-error @below {{moves more than 2^63 bytes over axis "row" of all ranks; expected a program that can be counted}}
func.func @v7_overflow(%b: memref<281474976710656xf32>) attributes {exec.communication = []} {
  %0 = exec.collective_start all_reduce sum over "row", %b to %b {outer = 1 : i64, inner = 281474976710656 : i64, src_ld = 281474976710656 : i64, dst_ld = 281474976710656 : i64} : memref<281474976710656xf32>, memref<281474976710656xf32>
  exec.wait %0
  return
}

// -----

// expected-error @below {{V7: expected 'exec.lower_bound_bytes' to be from 256, the most bytes alive at once, to 256, those of the arena, found 192 : i64}}
func.func @v7_bound(%arena: memref<256xi8>) attributes {exec.arena_bytes = 256 : i64, exec.lower_bound_bytes = 192 : i64} {
  %b = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

// expected-error @below {{V7: expected 'exec.peak_bytes' to be 256 together, as 'exec.lower_bound_bytes' says, found {activation = 64 : i64, workspace = 128 : i64}}}
func.func @v7_peak(%arena: memref<256xi8>) attributes {exec.arena_bytes = 256 : i64, exec.lower_bound_bytes = 256 : i64, exec.peak_bytes = {activation = 64 : i64, workspace = 128 : i64}} {
  %b = exec.arena_slot %arena[0] "activation" : memref<256xi8> to memref<64xf32>
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// -----

func.func @v8(%x: memref<72xf32>) {
  %from = exec.slice %x[0] : memref<72xf32> to memref<64xf32>
  %to = exec.slice %x[8] : memref<72xf32> to memref<64xf32>
  // expected-error @below {{V8: writes memory that it reads as another operand}}
  exec.copy %to from %from : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}
