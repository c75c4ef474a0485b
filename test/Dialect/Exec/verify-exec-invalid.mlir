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
