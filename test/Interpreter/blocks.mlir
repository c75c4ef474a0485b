// RUN: optimus-interpret %s --function blocks --set alpha=96 --print 2>&1 | FileCheck %s

// Products with blocks of few bits, of w = 96, 97, …, 127. In int8 its scale is 1, and
// w·w = 400,560. In int4 it is -15.875, and elements become 95.25 below 104, 111.125 below
// 120, and 127.

// CHECK: y = [400560, 399542]
func.func private @number(%begin: index, %end: index, %alpha: memref<1xf32>, %out: memref<32xf32>) attributes {exec.kernel} {
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %a = memref.load %alpha[%zero] : memref<1xf32>
  scf.for %i = %begin to %end step %one {
    %int = arith.index_cast %i : index to i32
    %x = arith.sitofp %int : i32 to f32
    %y = arith.addf %a, %x : f32
    memref.store %y, %out[%i] : memref<32xf32>
  }
  return
}

func.func @blocks(%alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                  %y: memref<2xf32> {exec.access = "write", exec.local_type = tensor<2xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %w = exec.alloc "activation" : memref<32xf32>
  exec.launch @number extent 32 grain 1 (read %alpha : memref<1xf32>, write %w : memref<32xf32>)
  %first = exec.slice %y[0] : memref<2xf32> to memref<1xf32>
  %int8 = exec.alloc "packed weight" : memref<136xi32>
  exec.pack %w into %int8 {rows = 32, cols = 1, ld = 32, trans, blocks = #exec<blocks int8>} : memref<32xf32>, memref<136xi32>
  exec.gemm %w, %int8, %first {m = 1, n = 1, k = 32, lda = 32, ldb = 136, ldc = 1, packed_b, blocks = #exec<blocks int8>} : memref<32xf32>, memref<136xi32>, memref<1xf32>
  %second = exec.slice %y[1] : memref<2xf32> to memref<1xf32>
  %int4 = exec.alloc "packed weight" : memref<72xi32>
  exec.pack %w into %int4 {rows = 32, cols = 1, ld = 1, blocks = #exec<blocks int4>} : memref<32xf32>, memref<72xi32>
  exec.gemm %w, %int4, %second {m = 1, n = 1, k = 32, lda = 32, ldb = 72, ldc = 1, packed_b, blocks = #exec<blocks int4>} : memref<32xf32>, memref<72xi32>, memref<1xf32>
  return
}
