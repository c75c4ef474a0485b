// RUN: split-file %s %t
// RUN: not optimus-interpret %t/uninitialised.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=UNINITIALISED
// RUN: not optimus-interpret %t/partly.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=PARTLY
// RUN: not optimus-interpret %t/stale.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=STALE
// RUN: not optimus-interpret %t/missing-edge.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=MISSING-EDGE
// RUN: not optimus-interpret %t/not-awaited.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=NOT-AWAITED
// RUN: not optimus-interpret %t/reused-early.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=REUSED-EARLY
// RUN: not optimus-interpret %t/written-twice.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=WRITTEN-TWICE
// RUN: not optimus-interpret %t/wrong-root.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=WRONG-ROOT
// RUN: not optimus-interpret %t/undeclared.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=UNDECLARED
// RUN: not optimus-interpret %t/outside.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: not optimus-interpret %t/unwritten.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=UNWRITTEN
// RUN: not optimus-interpret %t/replicas.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=REPLICAS
// RUN: not optimus-interpret %t/no-body.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=NO-BODY

// Device programs that verify one command at a time, and are wrong together.

//--- uninitialised.mlir
// Nothing has written the buffer: arenas begin poisoned.
// UNINITIALISED: error: 'exec.copy' op on rank 0 (row 0, col 0): command 0, exec.copy of {{.*}}, reads element 0 of the buffer of activation, which no command has written
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.alloc "activation" : memref<4xf32>
  exec.copy %y from %a : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  return
}

//--- partly.mlir
// The last element is missing.
// PARTLY: error: 'exec.copy' op on rank 0 (row 0, col 0): command 1, exec.copy of {{.*}}, reads element 3 of the buffer of activation, which no command has written
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.alloc "activation" : memref<4xf32>
  exec.copy %a from %x : memref<4xf32> {rows = 1, cols = 3, src_ld = 4, dst_ld = 4} : memref<4xf32>
  exec.copy %y from %a : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  return
}

//--- stale.mlir
// Another buffer has been placed where the first one lies.
// STALE: error: 'exec.copy' op on rank 0 (row 0, col 0): command 2, exec.copy of third (stale.mlir:2), reads element 0 of the buffer of activation 'a:0', written last as the buffer of workspace received by command 1, exec.copy of second (stale.mlir:1)
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%arena: memref<64xi8>, %x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.arena_slot %arena[0] "activation" {values = ["a:0"]} : memref<64xi8> to memref<4xf32>
  %b = exec.arena_slot %arena[0] "workspace" {name = "received"} : memref<64xi8> to memref<4xf32>
  exec.copy %a from %x : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  exec.copy %b from %x : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32> loc("second"("stale.mlir":1:1))
  exec.copy %y from %a : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32> loc("third"("stale.mlir":2:1))
  return
}

//--- missing-edge.mlir
// A collective reads before what it waits for is done: there is no edge between the queues.
// MISSING-EDGE: error: 'exec.collective_start' op on rank 0 (row 0, col 0): command 1, exec.collective_start of {{.*}}, reads element 0 of the buffer of activation, without waiting for its writer, command 0, exec.copy of
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.alloc "activation" : memref<4xf32>
  exec.copy %a from %x : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4, id = 0 : i32, queue = "compute"} : memref<4xf32>
  %0 = exec.collective_start broadcast sum over "col", %a to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4, id = 1 : i32, queue = "col"} : memref<4xf32>, memref<4xf32>
  exec.wait %0 {id = 2 : i32, queue = "compute"}
  return
}

//--- not-awaited.mlir
// What a collective receives is read before the wait.
// NOT-AWAITED: error: 'exec.copy' op on rank 0 (row 0, col 0): command 1, exec.copy of {{.*}}, reads element 0 of the buffer of workspace, without waiting for its writer, command 0, exec.collective_start of
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.alloc "workspace" : memref<4xf32>
  %0 = exec.collective_start all_reduce sum over "col", %x to %a {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.copy %y from %a : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  exec.wait %0
  return
}

//--- reused-early.mlir
// A slot is given to another buffer while a collective still sends what lies there.
// REUSED-EARLY: error: 'exec.copy' op on rank 0 (row 0, col 0): command 2, exec.copy of {{.*}}, writes element 0 of the buffer of workspace, without waiting for its reader, command 1, exec.collective_start of
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%arena: memref<64xi8>, %x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.arena_slot %arena[0] "activation" : memref<64xi8> to memref<4xf32>
  %b = exec.arena_slot %arena[0] "workspace" : memref<64xi8> to memref<4xf32>
  exec.copy %a from %x : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4, id = 0 : i32, queue = "compute"} : memref<4xf32>
  %0 = exec.collective_start broadcast sum over "col", %a to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4, id = 1 : i32, queue = "col", after = array<i32: 0>} : memref<4xf32>, memref<4xf32>
  exec.copy %b from %x : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4, id = 2 : i32, queue = "compute"} : memref<4xf32>
  exec.wait %0 {id = 3 : i32, queue = "compute"}
  return
}

//--- written-twice.mlir
// Two collectives on two axes write one buffer, and neither waits for the other.
// WRITTEN-TWICE: error: 'exec.collective_start' op on rank 0 (row 0, col 0): command 1, exec.collective_start of {{.*}}, writes element 0 of argument y, without waiting for its other writer, command 0, exec.collective_start of
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %0 = exec.collective_start all_reduce sum over "col", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  %1 = exec.collective_start all_reduce sum over "row", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %0
  exec.wait %1
  return
}

//--- wrong-root.mlir
// Who is not the root receives where its own panel lies.
// WRONG-ROOT: error: 'exec.collective_start' op on rank 1 (row 0, col 1): command 0, exec.collective_start of {{.*}}, writes element 0 of argument x, which the function may only read
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %a = exec.alloc "workspace" : memref<4xf32>
  %p = exec.select_rank "col" is 1, %x, %a : memref<4xf32>
  %0 = exec.collective_start broadcast sum over "col", %x to %p {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %0
  exec.copy %y from %p : memref<4xf32> {rows = 1, cols = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>
  return
}

//--- undeclared.mlir
// A kernel writes what its launch says it reads; the later half of its iterations comes first.
// UNDECLARED: error: 'exec.launch' op on rank 0 (row 0, col 0): command 0, exec.launch of {{.*}}, writes element 2 of argument y, but is declared to read it only
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func private @move(%begin: index, %end: index, %x: memref<4xf32>, %y: memref<4xf32>) attributes {exec.kernel} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %y[%i] : memref<4xf32>
  }
  return
}
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.launch @move extent 4 grain 1 (read %x : memref<4xf32>, read %y : memref<4xf32>)
  return
}

//--- outside.mlir
// A kernel reads behind the end of its buffer.
// OUTSIDE: error: 'exec.launch' op on rank 0 (row 0, col 0): command 0, exec.launch of {{.*}}, reads element 4 of argument x, which it does not have
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func private @move(%begin: index, %end: index, %x: memref<4xf32>, %y: memref<4xf32>) attributes {exec.kernel} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<4xf32>
    memref.store %v, %y[%i] : memref<4xf32>
  }
  return
}
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.launch @move extent 5 grain 1 (read %x : memref<4xf32>, write %y : memref<4xf32>)
  return
}

//--- unwritten.mlir
// A result is not written whole.
// UNWRITTEN: error: @f on rank 0 (row 0, col 0): leaves element 3 of argument y unwritten
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.copy %y from %x : memref<4xf32> {rows = 1, cols = 3, src_ld = 4, dst_ld = 4} : memref<4xf32>
  return
}

//--- replicas.mlir
// Ranks that hold one result have computed two.
// REPLICAS: error: @f: result y differs by {{.*}} between rank 0 (row 0, col 0) and rank 1 (row 0, col 1), which hold the same part by its type
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func private @fill(%begin: index, %end: index, %y: memref<4xf32>, %n: i64) attributes {exec.kernel} {
  %one = arith.constant 1 : index
  %v = arith.sitofp %n : i64 to f32
  scf.for %i = %begin to %end step %one {
    memref.store %v, %y[%i] : memref<4xf32>
  }
  return
}
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %0 = exec.collective_start reduce sum over "col", %x to %y {outer = 1, inner = 4, src_ld = 4, dst_ld = 4} : memref<4xf32>, memref<4xf32>
  exec.wait %0
  %o = exec.part_offset 1 over ["col"]
  exec.launch @fill extent 4 grain 1 (write %y : memref<4xf32>) scalars (%o : i64)
  return
}

//--- no-body.mlir
// A kernel that is only described.
// NO-BODY: error: 'exec.launch' op launches @described, which has no body of one block; run --optimus-build-kernels first
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func private @described(index, index, memref<4xf32>, memref<4xf32>) attributes {exec.kernel, exec.computes = {kind = "elementwise"}}
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}, %y: memref<4xf32> {exec.access = "write", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.launch @described (read %x : memref<4xf32>, write %y : memref<4xf32>)
  return
}
