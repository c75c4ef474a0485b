// RUN: optimus-interpret %s --function products --set alpha=3 --print 2>&1 | FileCheck %s --check-prefix=PRODUCTS
// RUN: optimus-interpret %s --function panels --set alpha=3 --print 2>&1 | FileCheck %s --check-prefix=PANELS
// RUN: optimus-interpret %s --function sums --set alpha=3 --print 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: optimus-interpret %s --function order --set alpha=3 --print 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: optimus-interpret %s --function kernels --set alpha=3 --print 2>&1 | FileCheck %s --check-prefix=KERNELS

// Device programs, all ranks, whose results are easily followed. @number fills
// a buffer with alpha + 10 * (this rank's index on an axis) + the element.

optimus.mesh @mesh <["row" = 1, "col" = 2]>

func.func private @number(%begin: index, %end: index, %alpha: memref<1xf32>, %out: memref<4xf32>, %rank: i64) attributes {exec.kernel} {
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %ten = arith.constant 10 : index
  %r = arith.index_cast %rank : i64 to index
  %first = arith.muli %r, %ten : index
  %a = memref.load %alpha[%zero] : memref<1xf32>
  scf.for %i = %begin to %end step %one {
    %n = arith.addi %first, %i : index
    %int = arith.index_cast %n : index to i32
    %x = arith.sitofp %int : i32 to f32
    %y = arith.addf %a, %x : f32
    memref.store %y, %out[%i] : memref<4xf32>
  }
  return
}

// c = a·a + a, with a = [[3, 4], [5, 6]], and then without the diagonal's second.
// PRODUCTS: c = [32, 40, 50, 62]
// PRODUCTS: d = [3, 16, 25, 36]
// PRODUCTS: e = [32, 40, 0, 0]
func.func @products(%alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                    %c: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "c", lifetime = call>},
                    %d: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "d", lifetime = call>},
                    %e: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "e", lifetime = call>}) {
  %zero = arith.constant 0 : i64
  %a = exec.alloc "activation" : memref<4xf32>
  %identity = exec.alloc "activation" : memref<4xf32>
  exec.launch @number extent 4 grain 1 (read %alpha : memref<1xf32>, write %a : memref<4xf32>) scalars (%zero : i64)
  exec.gemm %a, %a, %c extra (%a : memref<4xf32>) {m = 2, n = 2, k = 2, lda = 2, ldb = 2, ldc = 2, ld_extra = 2, epilogue = #exec<epilogue add>} : memref<4xf32>, memref<4xf32>, memref<4xf32>
  // [[1, 0], [0, 0]]·aᵀ, times a, plus a row that is 0, 0 before.
  exec.copy %identity {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  exec.copy %d from %a : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  %packed = exec.alloc "packed weight" : memref<8xf32>
  %row = exec.slice %a[1] : memref<4xf32> to memref<3xf32>
  exec.pack %row into %packed {rows = 1, cols = 3, ld = 3} : memref<3xf32>, memref<8xf32>
  %three = exec.slice %d[1] : memref<4xf32> to memref<3xf32>
  %last = exec.slice %a[1] : memref<4xf32> to memref<3xf32>
  %ones = exec.slice %identity[0] : memref<4xf32> to memref<1xf32>
  exec.gemm %ones, %packed, %three bias (%last : memref<3xf32>) extra (%last : memref<3xf32>) {m = 1, n = 3, k = 1, lda = 1, ldb = 8, ldc = 3, ld_extra = 3, packed_b, epilogue = #exec<epilogue mul>} : memref<1xf32>, memref<8xf32>, memref<3xf32>
  exec.copy %e {rows = 1, cols = 4, src_ld = 0, dst_ld = 4} : memref<4xf32>
  exec.copy %e from %c : memref<4xf32> {rows = 1, cols = 2, src_ld = 2, dst_ld = 2} : memref<4xf32>
  return
}

// The root of a broadcast reads its panel where it lies; each rank owns one.
// PANELS: y = [3, 4, 5, 6, 13, 14, 15, 16]
// PANELS: whole = [3, 4, 13, 14, 5, 6, 15, 16]
func.func @panels(%alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                  %y: memref<8xf32> {exec.access = "write", exec.local_type = tensor<8xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>},
                  %whole: memref<8xf32> {exec.access = "write", exec.local_type = tensor<8xf32>, optimus.binding = #optimus.buffer<role = "whole", lifetime = call>}) {
  %rank = exec.part_offset 1 over ["col"]
  %own = exec.alloc "activation" : memref<4xf32>
  exec.launch @number extent 4 grain 1 (read %alpha : memref<1xf32>, write %own : memref<4xf32>) scalars (%rank : i64)
  %received = exec.alloc "workspace" {name = "received panel"} : memref<4xf32>
  %first = exec.select_rank "col" is 0, %own, %received : memref<4xf32>
  %0 = exec.collective_start broadcast sum over "col", %own to %first {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  %other = exec.alloc "workspace" {name = "received panel"} : memref<4xf32>
  %second = exec.select_rank "col" is 1, %own, %other : memref<4xf32>
  %1 = exec.collective_start broadcast sum over "col", %own to %second {root = 1 : i64, outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  %2 = exec.collective_start all_gather sum over "col", %own to %whole {outer = 2, inner = 2, src_ld = 2, dst_ld = 4} : memref<4xf32>, memref<8xf32>
  exec.wait %0
  %low = exec.slice %y[0] : memref<8xf32> to memref<4xf32>
  %high = exec.slice %y[4] : memref<8xf32> to memref<4xf32>
  exec.copy %low from %first : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  exec.wait %1
  exec.copy %high from %second : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  exec.wait %2
  return
}

// SUMS: sum = [16, 18, 20, 22]
// SUMS: largest = [13, 14, 15, 16]
// SUMS: part = [16, 20, 18, 22]
func.func @sums(%alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                %sum: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "sum", lifetime = call>},
                %largest: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "largest", lifetime = call>},
                %part: memref<2xf32> {exec.access = "write", exec.local_type = tensor<2xf32, #ccl.local<[4], #optimus.sharding<@mesh, [{"col"}]>>>, optimus.binding = #optimus.buffer<role = "part", lifetime = call>}) {
  %rank = exec.part_offset 1 over ["col"]
  %own = exec.alloc "activation" : memref<4xf32>
  exec.launch @number extent 4 grain 1 (read %alpha : memref<1xf32>, write %own : memref<4xf32>) scalars (%rank : i64)
  %root = exec.alloc "workspace" : memref<4xf32>
  %0 = exec.collective_start reduce sum over "col", %own to %root {root = 1 : i64, outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %0
  %1 = exec.collective_start broadcast sum over "col", %root to %sum {root = 1 : i64, outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %1
  // Each row's two halves: rank r of the axis gets column r of both rows.
  %2 = exec.collective_start reduce_scatter sum over "col", %own to %part {outer = 2, inner = 1, src_ld = 2, dst_ld = 1} : memref<4xf32>, memref<2xf32>
  exec.wait %2
  exec.copy %largest from %own : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  %3 = exec.collective_start all_reduce max over "col", %largest to %largest {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %3
  return
}

// One slot after another in the same bytes, with declared order.
// ORDER: y = [3, 4, 5, 6]
func.func @order(%arena: memref<64xi8>,
                 %alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                 %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %zero = arith.constant 0 : i64
  %a = exec.arena_slot %arena[0] "activation" : memref<64xi8> to memref<4xf32>
  %b = exec.arena_slot %arena[0] "activation" : memref<64xi8> to memref<4xf32>
  exec.launch @number extent 4 grain 1 (read %alpha : memref<1xf32>, write %a : memref<4xf32>) scalars (%zero : i64) {id = 0 : i32, queue = "compute"}
  %0 = exec.collective_start broadcast sum over "col", %a to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4, id = 1 : i32, queue = "col", after = array<i32: 0>} : memref<4xf32>, memref<4xf32>
  exec.wait %0 {id = 2 : i32, queue = "compute"}
  exec.copy %b {rows = 1, cols = 4, src_ld = 0, dst_ld = 4, id = 3 : i32, queue = "compute"} : memref<4xf32>
  return
}

// Vectors, constants, memory of a kernel's own, bits of floats.
func.func private @scale(%begin: index, %end: index, %x: memref<4xf32>, %y: memref<4xf32>) attributes {exec.kernel} {
  %zero = arith.constant 0 : index
  %tmp = memref.alloca() : memref<4xf32>
  %factors = memref.get_global @factors : memref<4xf32>
  %v = vector.load %x[%zero] : memref<4xf32>, vector<4xf32>
  %f = vector.load %factors[%zero] : memref<4xf32>, vector<4xf32>
  %p = arith.mulf %v, %f : vector<4xf32>
  vector.store %p, %tmp[%zero] : memref<4xf32>, vector<4xf32>
  %q = vector.load %tmp[%zero] : memref<4xf32>, vector<4xf32>
  %sum = vector.reduction <add>, %q : vector<4xf32> into f32
  %sums = vector.broadcast %sum : f32 to vector<4xf32>
  %bits = arith.bitcast %sums : vector<4xf32> to vector<4xi32>
  %exponent = arith.constant dense<8388608> : vector<4xi32>
  %twice = arith.addi %bits, %exponent : vector<4xi32>
  %result = arith.bitcast %twice : vector<4xi32> to vector<4xf32>
  vector.store %result, %y[%zero] : memref<4xf32>, vector<4xf32>
  return
}
memref.global "private" constant @factors : memref<4xf32> = dense<[1.0, 0.5, 0.25, 1.0e-9]>

// 2 · (3 + 2 + 1.25), a term too small for f32 left out.
// KERNELS: y = [12.5, 12.5, 12.5, 12.5]
func.func @kernels(%alpha: memref<1xf32> {exec.access = "read", exec.local_type = tensor<f32>, optimus.binding = #optimus.buffer<role = "alpha", lifetime = call>},
                   %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %zero = arith.constant 0 : i64
  %x = exec.alloc "activation" : memref<4xf32>
  exec.launch @number extent 4 grain 1 (read %alpha : memref<1xf32>, write %x : memref<4xf32>) scalars (%zero : i64)
  exec.launch @scale extent 1 grain 1 (read %x : memref<4xf32>, write %y : memref<4xf32>)
  return
}
