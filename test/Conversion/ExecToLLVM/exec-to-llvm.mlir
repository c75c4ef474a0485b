// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-exec-to-llvm)' | FileCheck %s

// The model: a version, the manifest, the tables and the kernels that they name, each with its wrapper
// and a hash of what it was written for.
// CHECK:      llvm.mlir.global internal constant @optimus.model()
// CHECK:        llvm.mlir.constant(8 : i32)
// CHECK:        llvm.mlir.addressof @optimus.manifest
// CHECK:        llvm.mlir.constant(2 : i64)
// CHECK:        llvm.mlir.addressof @optimus.programs
// CHECK:        llvm.mlir.constant(1 : i32)
// CHECK:        llvm.mlir.addressof @optimus.kernels
// CHECK:      llvm.mlir.global internal constant @optimus.kernels() {{.*}} : !llvm.array<1 x struct<(ptr, ptr, i64, ptr, i32, i32)>>
// CHECK-DAG:    llvm.mlir.addressof @optimus.name.twice
// CHECK-DAG:    llvm.mlir.addressof @optimus.kernel.twice
// CHECK:        llvm.mlir.constant({{-?[0-9]+}} : i64)
// CHECK:      llvm.mlir.global internal constant @optimus.name.twice("twice\00")
// Both can be read without running anything.
// CHECK:      llvm.mlir.global internal constant @optimus.programs("{{....}}{{.*}}OPTP{{.*}}") {{.*}}alignment = 64{{.*}}section = ".optimus.programs"
// CHECK:      llvm.mlir.global internal constant @optimus.manifest("{}") {{.*}}section = ".optimus.manifest"

module attributes {exec.manifest = "{}"} {
optimus.mesh @mesh <["row" = 2, "col" = 3]>

// Commands are in the tables: no code is left of them.
// CHECK-NOT: optimus.mesh
// CHECK-NOT: exec.launch
// CHECK-NOT: @step
func.func @step(%arena: memref<8192xi8>, %x: memref<512xf32>) {
  %slot = exec.arena_slot %arena[1024] "activation" : memref<8192xi8> to memref<512xf32>
  %extent = exec.real_extent 96 of 190 over ["col"]
  %first = exec.part_offset 100 over ["col", "row"]
  exec.launch @twice extent 4 grain 2 (read %x : memref<512xf32>, write %slot : memref<512xf32>)
    scalars (%extent, %first : i64, i64) {id = 0 : i32}
  return
}

// A kernel takes plain pointers.
// CHECK-LABEL: llvm.func internal @twice(
// CHECK-SAME:    i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
func.func private @twice(%begin: index, %end: index, %x: memref<512xf32>, %y: memref<512xf32>,
                         %extent: i64, %first: i64) attributes {exec.kernel} {
  return
}

// CHECK-LABEL: llvm.func hidden @optimus.kernel.twice(
// CHECK-SAME:    %[[BEGIN:.*]]: i64, %[[END:.*]]: i64, %[[LIST:.*]]: !llvm.ptr)
// A buffer's entry is its pointer, a scalar's points to it.
// CHECK:         %[[E0:.*]] = llvm.getelementptr %[[LIST]][0]
// CHECK:         %[[P0:.*]] = llvm.load %[[E0]] : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[E2:.*]] = llvm.getelementptr %[[LIST]][2]
// CHECK:         %[[P2:.*]] = llvm.load %[[E2]] : !llvm.ptr -> !llvm.ptr
// CHECK:         %[[S2:.*]] = llvm.load %[[P2]] : !llvm.ptr -> i64
// CHECK:         llvm.call @twice(%[[BEGIN]], %[[END]], %[[P0]], %{{.*}}, %[[S2]], %{{.*}})

// The version is checked; another one gets nothing.
// CHECK-LABEL: llvm.func @optimus_model_query(
// CHECK-SAME:    %[[VERSION:.*]]: i32) -> !llvm.ptr
// CHECK:         %[[SAME:.*]] = llvm.icmp "eq" %[[VERSION]]
// CHECK:         %[[MODEL:.*]] = llvm.mlir.addressof @optimus.model
// CHECK:         %[[NONE:.*]] = llvm.mlir.zero
// CHECK:         llvm.select %[[SAME]], %[[MODEL]], %[[NONE]]
}
