// RUN: %optimus-opt %s --optimus-exec-to-llvm | FileCheck %s

// The version is checked before anything else, and the table kept.
// CHECK-DAG: llvm.mlir.global internal @optimus.api() {{.*}} : !llvm.ptr
// CHECK-DAG: llvm.mlir.global internal constant @optimus.manifest("{}")
// CHECK-DAG: llvm.mlir.global internal constant @optimus.entry.step("step\00")

module attributes {exec.manifest = "{}"} {
optimus.mesh @mesh <["row" = 2, "col" = 3]>

// CHECK-NOT: optimus.mesh
// CHECK-NOT: exec.

// CHECK-LABEL: llvm.func internal @optimus.step.step(
// CHECK-SAME:    %[[RANK:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr, %[[ARGS:.*]]: !llvm.ptr) -> i32
func.func @step(%arena: memref<8192xi8>, %x: memref<512xf32>, %y: memref<512xf32>) {
  // The axes' indices are asked for once, before the first command: col is
  // axis 1 and row axis 0.
  // CHECK:     llvm.getelementptr %{{.*}}[0, 8]
  // CHECK:     %[[COLNUMBER:.*]] = llvm.mlir.constant(1 : i32)
  // CHECK:     %[[COL:.*]] = llvm.call %{{.*}}(%[[RANK]], %[[COLNUMBER]]) : !llvm.ptr, (!llvm.ptr, i32) -> i64
  // CHECK:     %[[ROWNUMBER:.*]] = llvm.mlir.constant(0 : i32)
  // CHECK:     %[[ROW:.*]] = llvm.call %{{.*}}(%[[RANK]], %[[ROWNUMBER]]) : !llvm.ptr, (!llvm.ptr, i32) -> i64
  // CHECK-NOT: llvm.call %{{.*}}(%[[RANK]], %{{.*}}) : !llvm.ptr, (!llvm.ptr, i32) -> i64
  %slot = exec.arena_slot %arena[1024] "activation" : memref<8192xi8> to memref<512xf32>
  %part = exec.slice_rank %slot over ["col"] stride 128 : memref<512xf32> to memref<256xf32>
  %half = exec.slice %y[256] : memref<512xf32> to memref<256xf32>

  // A product into a slice of an argument: the argument is the second pointer
  // of the runtime's list, which has no arena. Without bias and extra, null.
  // CHECK:     %[[SECOND:.*]] = llvm.mlir.constant(1 : i64)
  // CHECK:     %[[SLOT:.*]] = llvm.getelementptr %[[ARGS]][%[[SECOND]]]
  // CHECK:     %[[Y:.*]] = llvm.load %[[SLOT]]
  // CHECK:     %[[BIAS:.*]] = llvm.mlir.zero : !llvm.ptr
  // CHECK:     %[[EXTRA:.*]] = llvm.mlir.zero : !llvm.ptr
  // CHECK:     %[[DESC:.*]] = llvm.mlir.addressof @optimus.gemm.0
  // CHECK:     %[[STATUS:.*]] = llvm.call %{{.*}}(%[[RANK]], %{{.*}}, %[[DESC]], %{{.*}}, %{{.*}}, %{{.*}}, %[[BIAS]], %[[EXTRA]])
  // A status other than 0 is returned at once.
  // CHECK:     llvm.store %[[STATUS]], %[[LAST:.*]] : i32, !llvm.ptr
  // CHECK:     %[[FAILED:.*]] = llvm.icmp "ne" %[[STATUS]], %{{.*}} : i32
  // CHECK:     llvm.cond_br %[[FAILED]], ^[[EXIT:[a-z0-9]+]], ^[[NEXT:[a-z0-9]+]]
  // CHECK:   ^[[NEXT]]:
  exec.gemm %x, %part, %half {m = 16, n = 16, k = 16, lda = 16, ldb = 16, ldc = 16, id = 0 : i32}
    : memref<512xf32>, memref<256xf32>, memref<256xf32>

  // clamp(190 - col * 96, 0, 96), then col * 100 + row, both through memory.
  // CHECK:     %[[LOCAL:.*]] = llvm.mlir.constant(96 : i64)
  // CHECK:     llvm.mul %[[COL]], %[[LOCAL]]
  // CHECK:     llvm.intr.smin
  // CHECK:     llvm.intr.smax
  // CHECK:     llvm.getelementptr
  // CHECK:     %[[SIZE:.*]] = llvm.mlir.constant(2 : i64)
  // CHECK:     %[[SCALED:.*]] = llvm.mul %[[COL]], %[[SIZE]]
  // CHECK:     %[[BOTH:.*]] = llvm.add %[[SCALED]], %[[ROW]]
  // CHECK:     llvm.mul %[[BOTH]], %{{.*}}
  // CHECK:     llvm.mlir.addressof @optimus.kernel.twice
  // CHECK:     llvm.cond_br %{{.*}}, ^[[EXIT]],
  %extent = exec.real_extent 96 of 190 over ["col"]
  %first = exec.part_offset 100 over ["col", "row"]
  exec.launch @twice extent 4 grain 2 (read %x : memref<512xf32>, write %slot : memref<512xf32>)
    scalars (%extent, %first : i64, i64) {id = 1 : i32}

  // CHECK:     llvm.mlir.addressof @optimus.collective.
  %panel = exec.select_rank "row" is 1, %x, %slot : memref<512xf32>
  %token = exec.collective_start broadcast sum over "row", %x to %slot
    {root = 1, outer = 1, inner = 512, src_ld = 512, dst_ld = 512, id = 2 : i32} : memref<512xf32>, memref<512xf32>
  // The wait is given the number of the start.
  // CHECK:     llvm.cond_br
  // CHECK:     %[[STARTED:.*]] = llvm.mlir.constant(2 : i32)
  // CHECK:     llvm.call %{{.*}}(%[[RANK]], %[[STARTED]]) : !llvm.ptr, (!llvm.ptr, i32) -> i32
  exec.wait %token {id = 3 : i32}
  // The root's panel is used in place. The same matrix twice: one descriptor.
  // CHECK:     %[[ONE:.*]] = llvm.mlir.constant(1 : i64)
  // CHECK:     %[[MINE:.*]] = llvm.icmp "eq" %[[ROW]], %[[ONE]]
  // CHECK:     llvm.select %[[MINE]]
  // CHECK:     %[[COPY:.*]] = llvm.mlir.addressof @optimus.[[COPYNAME:copy.[0-9]+]]
  // CHECK:     llvm.mlir.addressof @optimus.[[COPYNAME]] :
  exec.copy %y from %panel : memref<512xf32> {rows = 1, cols = 512, src_ld = 512, dst_ld = 512, id = 4 : i32}
    : memref<512xf32>
  exec.copy %slot from %y : memref<512xf32> {rows = 1, cols = 512, src_ld = 512, dst_ld = 512, id = 5 : i32}
    : memref<512xf32>
  // CHECK:     llvm.return %{{.*}} : i32
  // CHECK-NEXT: ^[[EXIT]]:
  // CHECK:     %[[CODE:.*]] = llvm.load %[[LAST]] : !llvm.ptr -> i32
  // CHECK:     llvm.return %[[CODE]] : i32
  return
}

// A kernel takes plain pointers.
// CHECK-LABEL: llvm.func internal @twice(
// CHECK-SAME:    i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
func.func private @twice(%begin: index, %end: index, %x: memref<512xf32>, %y: memref<512xf32>,
                         %extent: i64, %first: i64) attributes {exec.kernel} {
  return
}

// CHECK-LABEL: llvm.func internal @optimus.kernel.twice(
// CHECK-SAME:    %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %[[LIST:.*]]: !llvm.ptr)
// A buffer's entry is its pointer, a scalar's points to it.
// CHECK:         %[[E0:.*]] = llvm.getelementptr %[[LIST]][0]
// CHECK:         %[[P0:.*]] = llvm.load %[[E0]] : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[E2:.*]] = llvm.getelementptr %[[LIST]][2]
// CHECK:         %[[P2:.*]] = llvm.load %[[E2]] : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[S2:.*]] = llvm.load %[[P2]] : !llvm.ptr -> i64
// CHECK:         llvm.call @twice(%[[BEGIN]], %[[END]], %[[P0]], %{{.*}}, %[[S2]], %{{.*}})

// CHECK-LABEL: llvm.func @optimus_model_query(
// CHECK-SAME:    %[[VERSION:.*]]: i32, %[[API:.*]]: !llvm.ptr) -> !llvm.ptr
// CHECK:         llvm.icmp "eq" %[[VERSION]]
// CHECK:         llvm.store %[[API]]
}
