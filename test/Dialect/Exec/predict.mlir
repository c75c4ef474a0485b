// RUN: optimus-opt %s --optimus-schedule='mode=none machine-profile=%S/Inputs/predict.json' | FileCheck %s

// What commands take by a profile of round numbers.

// A product of 1 ms whose operands, 768 bytes, come from memory at 1 us a byte,
// and the same again, which finds them in the cache.
// CHECK-LABEL: func.func @reuse(
// CHECK-SAME: predicted_parts_ms = {gemm = {{2\.76(8|799).*}} : f64}
func.func @reuse(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>) {
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  exec.gemm %a, %b, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// With a bias it was timed by itself: 4 ms, and 800 bytes.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME: predicted_parts_ms = {gemm = {{4\.(8|799).*}} : f64}
func.func @bias(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<64xf32>, %d: memref<8xf32>) {
  exec.gemm %a, %b, %c bias(%d : memref<8xf32>) {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// Two heads of 1 ms, and of 3 ms. 576 bytes come from memory at 1 us a byte, what
// is there three times once, and of a longer buffer the part in use; then 768.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: predicted_parts_ms = {attention = {{2\.57(6|599).*}} : f64, attention_grad = {{6\.76(8|799).*}} : f64}
func.func @attention(%q: memref<128xf32>, %o: memref<64xf32>, %l: memref<16xf32>, %d: memref<64xf32>, %k: memref<64xf32>, %v: memref<64xf32>) {
  exec.attention %q, %q, %q, %o, %l {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64, causal}
    : memref<128xf32>, memref<128xf32>, memref<128xf32>, memref<64xf32>, memref<16xf32>
  exec.attention_grad %q, %q, %q, %q, %o, %l, %d, %k, %v {batch = 1 : i64, seq = 8 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_ld = 8 : i64, kv_ld = 8 : i64, causal}
    : memref<128xf32>, memref<128xf32>, memref<128xf32>, memref<128xf32>, memref<64xf32>, memref<16xf32>, memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// 4 iterations of 16 elements: to load, to multiply and add, and to store are two
// operations each, 384 of vectors at 1 ns, 64 are divided at 10 ns, and 4 sums of
// one number take 10 ns each. That is 1.064 us, longer than 512 bytes take from a cache at 2/3 of the
// stream's byte a ns, but shorter than the 1.536 us from memory that the first
// launch takes.
func.func private @divide(%begin: index, %end: index, %x: memref<64xf32>, %y: memref<64xf32>) attributes {exec.kernel} {
  %c1 = arith.constant 1 : index
  scf.for %i = %begin to %end step %c1 {
    %c0 = arith.constant 0 : index
    %c16 = arith.constant 16 : index
    scf.for %j = %c0 to %c16 step %c16 {
      %at = arith.muli %i, %c16 : index
      %from = vector.load %x[%at] : memref<64xf32>, vector<16xf32>
      %square = arith.mulf %from, %from fastmath<contract> : vector<16xf32>
      %sum = arith.addf %square, %from : vector<16xf32>
      %ratio = arith.divf %from, %sum : vector<16xf32>
      vector.store %ratio, %y[%at] : memref<64xf32>, vector<16xf32>
    }
    %one = memref.load %x[%i] : memref<64xf32>
    %two = arith.addf %one, %one : f32
    memref.store %two, %y[%i] : memref<64xf32>
  }
  return
}

// CHECK-LABEL: func.func @computing(
// CHECK-SAME: predicted_parts_ms = {launch = {{2\.60000.*e-03|0\.00259999.*|0\.0026.*}} : f64}
func.func @computing(%x: memref<64xf32>, %y: memref<64xf32>) {
  exec.launch @divide extent 4 grain 1 (read %x : memref<64xf32>, write %y : memref<64xf32>)
  exec.launch @divide extent 4 grain 1 (read %x : memref<64xf32>, write %y : memref<64xf32>)
  return
}

// Of 64 elements of bf16 each is loaded, widened by 2 instructions, added,
// rounded by 8 and stored: 1664 operations at 1 ns, while 256 bytes come from
// memory in 0.768 us.
func.func private @double_narrow(%begin: index, %end: index, %x: memref<64xbf16>, %y: memref<64xbf16>) attributes {exec.kernel} {
  %c16 = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %begin to %end step %c1 {
    %at = arith.muli %i, %c16 : index
    %from = vector.load %x[%at] : memref<64xbf16>, vector<16xbf16>
    %wide = arith.extf %from : vector<16xbf16> to vector<16xf32>
    %sum = arith.addf %wide, %wide : vector<16xf32>
    %narrow = arith.truncf %sum : vector<16xf32> to vector<16xbf16>
    vector.store %narrow, %y[%at] : memref<64xbf16>, vector<16xbf16>
  }
  return
}

// CHECK-LABEL: func.func @converting(
// CHECK-SAME: predicted_parts_ms = {launch = {{1\.66(4|399).*e-03|0\.001664.*|0\.0016639.*}} : f64}
func.func @converting(%x: memref<64xbf16>, %y: memref<64xbf16>) {
  exec.launch @double_narrow extent 4 grain 1 (read %x : memref<64xbf16>, write %y : memref<64xbf16>)
  return
}

// Three of four iterations load and store 16 elements, 192 operations; the last
// has a sum of one number, 10 ns. Then data decide, and the first branch counts:
// to load, to multiply to 64 bits, as long as 20 instructions, and to store, 2816
// operations. Bytes take 0.96 us.
func.func private @branches(%begin: index, %end: index, %x: memref<64xf32>, %w: memref<16xi32>) attributes {exec.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %begin to %end step %c1 {
    %at = arith.muli %i, %c16 : index
    %isEarly = arith.cmpi slt, %i, %c3 : index
    scf.if %isEarly {
      %from = vector.load %x[%at] : memref<64xf32>, vector<16xf32>
      vector.store %from, %x[%at] : memref<64xf32>, vector<16xf32>
    } else {
      %one = memref.load %x[%at] : memref<64xf32>
      %two = arith.addf %one, %one : f32
      memref.store %two, %x[%at] : memref<64xf32>
    }
    %word = memref.load %w[%c0] : memref<16xi32>
    %isUsual = arith.cmpi sge, %word, %word : i32
    scf.if %isUsual {
      %words = vector.load %w[%c0] : memref<16xi32>, vector<16xi32>
      %low, %high = arith.mului_extended %words, %words : vector<16xi32>
      vector.store %low, %w[%c0] : memref<16xi32>, vector<16xi32>
    } else {
      scf.for %j = %c0 to %c16 step %c1 {
        %one = memref.load %x[%j] : memref<64xf32>
        %two = arith.addf %one, %one : f32
        %four = arith.addf %two, %two : f32
        memref.store %four, %x[%j] : memref<64xf32>
      }
    }
  }
  return
}

// CHECK-LABEL: func.func @branching(
// CHECK-SAME: predicted_parts_ms = {launch = {{3\.01(8|799).*e-03|0\.003018.*|0\.0030179.*}} : f64}
func.func @branching(%x: memref<64xf32>, %w: memref<16xi32>) {
  exec.launch @branches extent 4 grain 1 (update %x : memref<64xf32>, update %w : memref<16xi32>)
  return
}

// Two arrays of 1 MiB, one read and one written, are fetched from memory at 2/3
// of 0.5 bytes a ns, which takes longer than the arithmetic.
func.func private @double(%begin: index, %end: index, %x: memref<262144xf32>, %y: memref<262144xf32>) attributes {exec.kernel} {
  %c16 = arith.constant 16 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %begin to %end step %c1 {
    %at = arith.muli %i, %c16 : index
    %from = vector.load %x[%at] : memref<262144xf32>, vector<16xf32>
    %sum = arith.addf %from, %from : vector<16xf32>
    vector.store %sum, %y[%at] : memref<262144xf32>, vector<16xf32>
  }
  return
}

// CHECK-LABEL: func.func @streaming(
// CHECK-SAME: predicted_parts_ms = {launch = {{6\.29145.*}} : f64}
func.func @streaming(%x: memref<262144xf32>, %y: memref<262144xf32>) {
  exec.launch @double extent 16384 grain 256 (read %x : memref<262144xf32>, write %y : memref<262144xf32>)
  return
}

// In place the same bytes are fetched once.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: predicted_parts_ms = {launch = {{3\.14572.*}} : f64}
func.func @in_place(%x: memref<262144xf32>) {
  exec.launch @double extent 16384 grain 256 (read %x : memref<262144xf32>, write %x : memref<262144xf32>)
  return
}

// 64 rows of 64 elements, summed 16 columns at a time: 16384 bytes at 0.1 bytes
// a ns, and the sums' 256 at those of a stream.
func.func private @sum_columns(%begin: index, %end: index, %x: memref<4096xf32>, %y: memref<64xf32>) attributes {exec.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %i = %begin to %end step %c1 {
    %column = arith.muli %i, %c16 : index
    %sum = scf.for %row = %c0 to %c64 step %c1 iter_args(%partial = %zero) -> vector<16xf32> {
      %above = arith.muli %row, %c64 : index
      %at = arith.addi %above, %column : index
      %from = vector.load %x[%at] : memref<4096xf32>, vector<16xf32>
      %next = arith.addf %partial, %from : vector<16xf32>
      scf.yield %next : vector<16xf32>
    }
    vector.store %sum, %y[%column] : memref<64xf32>, vector<16xf32>
  }
  return
}

// CHECK-LABEL: func.func @columns(
// CHECK-SAME: predicted_parts_ms = {launch = {{1\.6460.*e-01|0\.1646.*}} : f64}
func.func @columns(%x: memref<4096xf32>, %y: memref<64xf32>) {
  exec.launch @sum_columns extent 4 grain 1 (read %x : memref<4096xf32>, write %y : memref<64xf32>)
  return
}

// Packing was timed: 2 ms, and 5 ms of what is stored transposed.
// CHECK-LABEL: func.func @packing(
// CHECK-SAME: predicted_parts_ms = {pack = {{7\.0000*.*|6\.9999.*}} : f64}
func.func @packing(%w: memref<64xf32>, %p: memref<1024xf32>, %q: memref<1024xf32>) {
  exec.pack %w into %p {rows = 8 : i64, cols = 8 : i64, ld = 8 : i64} : memref<64xf32>, memref<1024xf32>
  exec.pack %w into %q {rows = 8 : i64, cols = 8 : i64, ld = 8 : i64, trans} : memref<64xf32>, memref<1024xf32>
  return
}
