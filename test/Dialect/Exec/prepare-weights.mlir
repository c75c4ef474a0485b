// RUN: %optimus-opt %s --split-input-file --optimus-prepare-weights | FileCheck %s
// RUN: %optimus-opt %s --split-input-file --optimus-prepare-weights=budget=1024 | FileCheck %s --check-prefix=SMALL

// Two layouts of a weight and its narrow form are made once for all microbatches. A
// buffer that another command writes, and a copy of what is no parameter, stay.

// CHECK-LABEL: func.func @prepare(
// CHECK-SAME:    %[[W:arg0]]: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"}
// CHECK-SAME:    %[[P:arg1]]: memref<64xf32> {exec.access = "write", exec.local_type = tensor<64xf32>, optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>}
// CHECK-SAME:    %[[T:arg2]]: memref<64xf32> {{{.*}}role = "packed_2", of = "w"
// CHECK-SAME:    %[[N:arg3]]: memref<48xbf16> {{{.*}}tensor<48xbf16>{{.*}}role = "narrow", of = "w"
// CHECK-SAME:    %[[AGAIN:arg4]]: memref<64xf32> {{{.*}}role = "packed_3", of = "w"
// CHECK-SAME:    attributes {optimus.entry = #optimus.entry<prepare>}
// CHECK-NEXT:    exec.pack %[[W]] into %[[P]] {cols = 6 : i64, id = 0 : i32
// CHECK-NEXT:    exec.pack %[[W]] into %[[T]] {cols = 8 : i64, id = 1 : i32
// CHECK-NEXT:    exec.launch @cast extent 48 grain 1(read %[[W]] : memref<48xf32>, write %[[N]] : memref<48xbf16>) {id = 2 : i32}
// CHECK-NEXT:    exec.pack %[[W]] into %[[AGAIN]] {cols = 3 : i64, id = 3 : i32
// CHECK-NEXT:    return

// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME:    %[[P:arg3]]: memref<64xf32> {exec.access = "read", exec.local_type = tensor<64xf32>, optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>}
// CHECK-NEXT:    exec.gemm %arg1, %[[P]], %arg2 {id = 0 : i32
// CHECK-NEXT:    %[[WRITTEN:.*]] = exec.alloc "narrow weight"
// CHECK-NEXT:    exec.launch @cast
// CHECK-NEXT:    exec.launch @zero extent 48 grain 1(write %[[WRITTEN]]
// CHECK-NEXT:    %[[OTHER:.*]] = exec.alloc "packed weight"
// CHECK-NEXT:    exec.pack %arg1 into %[[OTHER]]
// CHECK-NEXT:    return

// Where a rank has no memory for it, nothing is prepared.
// SMALL-NOT:   @prepare
// SMALL:       func.func @accumulate(
// SMALL:         exec.pack
func.func @accumulate(%w: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"},
                      %x: memref<48xf32>, %y: memref<36xf32>)
    attributes {optimus.entry = #optimus.entry<accumulate>} {
  %p = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %p {rows = 8, cols = 6, ld = 6} : memref<48xf32>, memref<64xf32>
  %t = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %t {rows = 6, cols = 8, ld = 6, trans} : memref<48xf32>, memref<64xf32>
  exec.gemm %x, %p, %y {m = 6, n = 6, k = 8, lda = 8, ldb = 64, ldc = 6, packed_b} : memref<48xf32>, memref<64xf32>, memref<36xf32>
  %n = exec.alloc "narrow weight" : memref<48xbf16>
  exec.launch @cast extent 48 grain 1(read %w : memref<48xf32>, write %n : memref<48xbf16>)
  %again = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %again {rows = 8, cols = 3, ld = 6} : memref<48xf32>, memref<64xf32>
  %written = exec.alloc "narrow weight" : memref<48xbf16>
  exec.launch @cast extent 48 grain 1(read %w : memref<48xf32>, write %written : memref<48xbf16>)
  exec.launch @zero extent 48 grain 1(write %written : memref<48xbf16>)
  %other = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %x into %other {rows = 8, cols = 6, ld = 6} : memref<48xf32>, memref<64xf32>
  return
}
func.func @update() attributes {optimus.entry = #optimus.entry<update>} { return }
func.func private @cast(index, index, memref<48xf32>, memref<48xbf16>) attributes {exec.kernel}
func.func private @zero(index, index, memref<48xbf16>) attributes {exec.kernel}

// -----

// On a mesh each rank has its own part.

// CHECK-LABEL: func.func @prepare(
// CHECK-SAME:    memref<64xf32> {exec.access = "write", exec.local_type = tensor<64xf32, #ccl.local<[384], <@mesh, [{"row", "col"}]>>>
optimus.mesh @mesh <["row" = 2, "col" = 3]>
func.func @accumulate(%w: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"})
    attributes {optimus.entry = #optimus.entry<accumulate>} {
  %p = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %p {rows = 8, cols = 6, ld = 6} : memref<48xf32>, memref<64xf32>
  return
}
func.func @update() attributes {optimus.entry = #optimus.entry<update>} { return }

// -----

// A step without microbatches packs for itself.

// CHECK-NOT:   @prepare
// CHECK-LABEL: func.func @train_step(
// CHECK:         exec.pack
func.func @train_step(%w: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"})
    attributes {optimus.entry = #optimus.entry<train>} {
  %p = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %p {rows = 8, cols = 6, ld = 6} : memref<48xf32>, memref<64xf32>
  return
}

// -----

// What generates text shares what it makes of weights, and a product of few rows reads
// what the other one packs. Each parameter is prepared by a function of its own, and one
// that nothing else reads is read by that alone.

// CHECK-LABEL: func.func @"prepare:w"(
// CHECK-SAME:    %[[W:arg0]]: memref<48xf32> {{{.*}}optimus.param = "w"}
// CHECK-SAME:    %[[P:arg1]]: memref<64xf32> {{{.*}}role = "packed", of = "w"
// CHECK-SAME:    attributes {optimus.entry = #optimus.entry<prepare>}
// CHECK-NEXT:    exec.pack %[[W]] into %[[P]] {cols = 6 : i64, id = 0 : i32
// CHECK-NEXT:    return

// CHECK-LABEL: func.func @"prepare:v"(
// CHECK-SAME:    %[[V:arg0]]: memref<48xf32> {{{.*}}optimus.param = "v"}
// CHECK-SAME:    %[[N:arg1]]: memref<48xbf16> {{{.*}}role = "narrow", of = "v"
// CHECK-NEXT:    exec.launch @cast extent 48 grain 1(read %[[V]] : memref<48xf32>, write %[[N]] : memref<48xbf16>) {id = 0 : i32}
// CHECK-NEXT:    return

// CHECK-LABEL: func.func @prefill(
// CHECK-NOT:     optimus.param = "w"
// CHECK-SAME:    %[[X:arg0]]: memref<48xf32>, %[[Y:arg1]]: memref<36xf32>
// CHECK-SAME:    %[[P:arg2]]: memref<64xf32> {exec.access = "read", exec.local_type = tensor<64xf32>, optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>}
// CHECK-SAME:    %[[N:arg3]]: memref<48xbf16>
// CHECK-NEXT:    exec.gemm %[[X]], %[[P]], %[[Y]] {id = 0 : i32
// CHECK-NEXT:    exec.launch @use
// CHECK-SAME:      read %[[N]]

// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[V:arg0]]: memref<48xf32> {{{.*}}optimus.param = "v"}
// CHECK-SAME:    %[[X:arg1]]: memref<8xf32>, %[[Y:arg2]]: memref<6xf32>
// CHECK-SAME:    %[[N:arg3]]: memref<48xbf16>
// CHECK-SAME:    %[[P:arg4]]: memref<64xf32> {{{.*}}role = "packed", of = "w"
// CHECK-NEXT:    exec.launch @use
// CHECK-SAME:      read %[[N]]
// CHECK-NEXT:    exec.gemm %[[X]], %[[P]], %[[Y]] {id = 1 : i32, k = 8 : i64, lda = 8 : i64, ldb = 64 : i64, ldc = 6 : i64, m = 1 : i64, n = 6 : i64, packed_b}
// As another matrix it is read as it lies.
// CHECK-NEXT:    exec.gemm %[[X]], %[[V]], %[[Y]] {id = 2 : i32
// CHECK-NOT:       packed_b
// CHECK:         return

// SMALL-NOT:   @"prepare:
// SMALL:       func.func @prefill(
// SMALL:         exec.pack
func.func @prefill(%w: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"},
                   %v: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "v"},
                   %x: memref<48xf32>, %y: memref<36xf32>)
    attributes {optimus.entry = #optimus.entry<prefill, batch = 2, sequence = 3>} {
  %p = exec.alloc "packed weight" : memref<64xf32>
  exec.pack %w into %p {rows = 8, cols = 6, ld = 6} : memref<48xf32>, memref<64xf32>
  exec.gemm %x, %p, %y {m = 6, n = 6, k = 8, lda = 8, ldb = 64, ldc = 6, packed_b} : memref<48xf32>, memref<64xf32>, memref<36xf32>
  %n = exec.alloc "narrow weight" : memref<48xbf16>
  exec.launch @cast extent 48 grain 1(read %v : memref<48xf32>, write %n : memref<48xbf16>)
  exec.launch @use extent 48 grain 1(read %n : memref<48xbf16>)
  return
}
func.func @decode(%w: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "w"},
                  %v: memref<48xf32> {exec.access = "read", exec.local_type = tensor<8x6xf32>, optimus.param = "v"},
                  %x: memref<8xf32>, %y: memref<6xf32>)
    attributes {optimus.entry = #optimus.entry<decode, batch = 2, sequence = 1>} {
  %n = exec.alloc "narrow weight" : memref<48xbf16>
  exec.launch @cast extent 48 grain 1(read %v : memref<48xf32>, write %n : memref<48xbf16>)
  exec.launch @use extent 48 grain 1(read %n : memref<48xbf16>)
  exec.gemm %x, %w, %y {m = 1, n = 6, k = 8, lda = 8, ldb = 6, ldc = 6} : memref<8xf32>, memref<48xf32>, memref<6xf32>
  exec.gemm %x, %v, %y {m = 1, n = 6, k = 8, lda = 8, ldb = 6, ldc = 6} : memref<8xf32>, memref<48xf32>, memref<6xf32>
  return
}
func.func private @cast(index, index, memref<48xf32>, memref<48xbf16>) attributes {exec.kernel}
func.func private @use(index, index, memref<48xbf16>) attributes {exec.kernel}
