// RUN: optimus-opt %s --optimus-build-kernels=target=cuda --split-input-file --verify-diagnostics

func.func private @rms_rstd(index, index, memref<8xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_rstd", rows = 8 : i64, size = 4 : i64, epsilon = 0.0 : f64}}
func.func @f(%x: memref<32xf32>, %y: memref<8xf32>) {
  %near = exec.slice %x[4] : memref<32xf32> to memref<20xf32>
  %good = exec.slice %near[8] : memref<20xf32> to memref<8xf32>
  exec.launch @rms_rstd(read %good : memref<8xf32>, write %y : memref<8xf32>)
  // Two that are not right alone.
  %odd = exec.slice %x[5] : memref<32xf32> to memref<20xf32>
  %even = exec.slice %odd[7] : memref<20xf32> to memref<8xf32>
  exec.launch @rms_rstd(read %even : memref<8xf32>, write %y : memref<8xf32>)
  %wrong = exec.slice %near[5] : memref<20xf32> to memref<8xf32>
  // expected-error @below {{expected 'squares' to begin at a multiple of 16 bytes, as the kernels of this target do, found a part of a buffer that does not; let extents be multiples of 16 bytes, or copy the part}}
  exec.launch @rms_rstd(read %wrong : memref<8xf32>, write %y : memref<8xf32>)
  return
}

// -----

// On a rank that is not the first.
optimus.mesh @mesh <["row" = 2]>
func.func private @rms_rstd(index, index, memref<8xbf16>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_rstd", rows = 8 : i64, size = 4 : i64, epsilon = 0.0 : f64}}
func.func @f(%x: memref<32xbf16>, %y: memref<8xf32>) {
  %good = exec.slice_rank %x over ["row"] stride 8 : memref<32xbf16> to memref<8xbf16>
  exec.launch @rms_rstd(read %good : memref<8xbf16>, write %y : memref<8xf32>)
  %wrong = exec.slice_rank %x over ["row"] stride 12 : memref<32xbf16> to memref<8xbf16>
  // expected-error @below {{expected 'squares' to begin at a multiple of 16 bytes}}
  exec.launch @rms_rstd(read %wrong : memref<8xbf16>, write %y : memref<8xf32>)
  return
}

// -----

// Heads of 20 bytes, in one tensor: k and v begin at multiples of a head.
func.func private @attention(index, index, memref<20xf32>, memref<20xf32>, memref<20xf32>, memref<10xf32>, memref<2xf32>) attributes {exec.kernel, exec.computes = {kind = "attention", batch = 1 : i64, seq = 2 : i64, heads = 1 : i64, kv_heads = 1 : i64, head_dim = 5 : i64, q_stride = 15 : i64, kv_stride = 15 : i64}}
func.func @f(%qkv: memref<30xf32>, %out: memref<10xf32>, %lse: memref<2xf32>, %other: memref<11xf32>) {
  %q = exec.slice %qkv[0] : memref<30xf32> to memref<20xf32>
  %k = exec.slice %qkv[5] : memref<30xf32> to memref<20xf32>
  %v = exec.slice %qkv[10] : memref<30xf32> to memref<20xf32>
  exec.launch @attention(read %q : memref<20xf32>, read %k : memref<20xf32>, read %v : memref<20xf32>, write %out : memref<10xf32>, write %lse : memref<2xf32>)
  // What is no part begins as tensors do.
  %wrong = exec.slice %other[1] : memref<11xf32> to memref<10xf32>
  // expected-error @below {{expected 'out' to begin at a multiple of 16 bytes}}
  exec.launch @attention(read %q : memref<20xf32>, read %k : memref<20xf32>, read %v : memref<20xf32>, write %wrong : memref<10xf32>, write %lse : memref<2xf32>)
  return
}
