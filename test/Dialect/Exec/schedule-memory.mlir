// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{mode=memory}))' | FileCheck %s --check-prefixes=CHECK,MEMORY --implicit-check-not=exec.launch
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{mode=balanced}))' | FileCheck %s --check-prefixes=CHECK,MEMORY --implicit-check-not=exec.launch
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule))' | FileCheck %s --check-prefixes=CHECK,TIME --implicit-check-not=exec.launch
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{mode=memory},optimus-place-buffers,optimus-order-commands,optimus-verify-exec))' | FileCheck %s --check-prefix=PLACED

func.func private @make(index, index, memref<1024xf32>)
func.func private @add(index, index, memref<1024xf32>, memref<1024xf32>)

// Two values are made before either is used. One after the other, they have one
// place. What is added to in place keeps its order, in which sums round.
// CHECK-LABEL: func.func @interleaves(
// MEMORY: exec.alloc "activation" {name = "first"}
// MEMORY: exec.launch @make extent 1 grain 1(write %[[A:[0-9]+]]
// MEMORY: exec.launch @add extent 1 grain 1(read %[[A]]
// MEMORY: exec.alloc "activation" {name = "second"}
// MEMORY: exec.launch @make extent 1 grain 1(write %[[B:[0-9]+]]
// MEMORY: exec.launch @add extent 1 grain 1(read %[[B]]
// TIME: exec.launch @make extent 1 grain 1(write %[[A:[0-9]+]]
// TIME: exec.launch @make extent 1 grain 1(write %[[B:[0-9]+]]
// TIME: exec.launch @add extent 1 grain 1(read %[[A]]
// TIME: exec.launch @add extent 1 grain 1(read %[[B]]
// PLACED-LABEL: func.func @interleaves(
// PLACED-SAME: exec.arena_bytes = 4096
func.func @interleaves(%sum: memref<1024xf32>) {
  %a = exec.alloc "activation" {name = "first"} : memref<1024xf32>
  %b = exec.alloc "activation" {name = "second"} : memref<1024xf32>
  exec.launch @make extent 1 grain 1 (write %a : memref<1024xf32>) {id = 0 : i32}
  exec.launch @make extent 1 grain 1 (write %b : memref<1024xf32>) {id = 1 : i32}
  exec.launch @add extent 1 grain 1 (read %a : memref<1024xf32>, update %sum : memref<1024xf32>) {id = 2 : i32}
  exec.launch @add extent 1 grain 1 (read %b : memref<1024xf32>, update %sum : memref<1024xf32>) {id = 3 : i32}
  return
}

// A value that two need is alive until the later one: what needs both values
// has them both, in any order.
// CHECK-LABEL: func.func @stays(
// CHECK: exec.launch @make extent 1 grain 1(write %[[A:[0-9]+]]
// CHECK: exec.launch @make extent 1 grain 1(write %[[B:[0-9]+]]
// CHECK: exec.launch @add extent 1 grain 1(read %[[A]] {{.*}}update %[[B]]
// CHECK: exec.launch @add extent 1 grain 1(read %[[A]] {{.*}}update %arg0
// CHECK: exec.launch @add extent 1 grain 1(read %[[B]]
func.func @stays(%sum: memref<1024xf32>) {
  %a = exec.alloc "activation" {name = "first"} : memref<1024xf32>
  %b = exec.alloc "activation" {name = "second"} : memref<1024xf32>
  exec.launch @make extent 1 grain 1 (write %a : memref<1024xf32>) {id = 0 : i32}
  exec.launch @make extent 1 grain 1 (write %b : memref<1024xf32>) {id = 1 : i32}
  exec.launch @add extent 1 grain 1 (read %a : memref<1024xf32>, update %b : memref<1024xf32>) {id = 2 : i32}
  exec.launch @add extent 1 grain 1 (read %a : memref<1024xf32>, update %sum : memref<1024xf32>) {id = 3 : i32}
  exec.launch @add extent 1 grain 1 (read %b : memref<1024xf32>, update %sum : memref<1024xf32>) {id = 4 : i32}
  return
}
