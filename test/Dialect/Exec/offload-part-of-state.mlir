// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state=1 least=64}))' | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state=8KiB least=64}))' | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state=9KiB least=64}))' | FileCheck %s --check-prefixes=CHECK,ALL

// The smallest tensors go first, until there are so many bytes. What is no
// parameter's stays.

// CHECK-LABEL: func.func @train(
// ONE-SAME:    memref<8192xf32> {
// ONE-SAME:    memref<1024xf32, #exec<space file>>
// ONE-SAME:    memref<1024xf32> {
// TWO-SAME:    memref<8192xf32> {
// TWO-SAME:    memref<1024xf32, #exec<space file>>
// TWO-SAME:    memref<1024xf32, #exec<space file>>
// ALL-SAME:    memref<8192xf32, #exec<space file>>
// ALL-SAME:    memref<1024xf32, #exec<space file>>
// ALL-SAME:    memref<1024xf32, #exec<space file>>
// CHECK-SAME:  memref<64xf32> {
func.func @train(
    %m: memref<8192xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "wte", lifetime = state, init = <zeros>, saved_in = optimizer>},
    %n: memref<1024xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "w", lifetime = state, init = <zeros>, saved_in = optimizer>},
    %o: memref<1024xf32> {optimus.binding = #optimus.buffer<role = "exp_avg_sq", of = "w", lifetime = state, init = <zeros>, saved_in = optimizer>},
    %t: memref<64xf32> {optimus.binding = #optimus.buffer<role = "step", lifetime = state, init = <zeros>, saved_in = optimizer>}) {
  exec.copy %o from %n : memref<1024xf32> {rows = 1, cols = 1024, src_ld = 1024, dst_ld = 1024, id = 0 : i32} : memref<1024xf32>
  return
}
