// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state space=host machine-profile=h100x8}))' | FileCheck %s --check-prefix=LINK
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state space=host machine-profile=h100x8 bandwidth=1GiB}))' | FileCheck %s --check-prefix=GIVEN
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state space=file machine-profile=h100x8}))' | FileCheck %s --check-prefix=FILE
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state space=host}))' | FileCheck %s --check-prefix=FILE

// 64 MiB in and out: 10 us and 1.21 or 1.27 ms over the profile's link of 55.6
// and 52.8 GB/s, unless rates are given; 50 us and 125 or 62.5 ms for a file,
// and for a host of which no profile tells.
// LINK:  fetch_ms = 1.21699{{[0-9e+-]*}} : f64, fetched_bytes = 67108864 : i64, store_ms = 1.28100{{[0-9e+-]*}}
// GIVEN: fetch_ms = 6.255000e+01 : f64, fetched_bytes = 67108864 : i64, store_ms = 6.255000e+01
// FILE:  fetch_ms = 1.250500e+02 : f64, fetched_bytes = 67108864 : i64, store_ms = 6.255000e+01
func.func private @update(index, index, memref<16777216xf32>, memref<16777216xf32>)
func.func @train(
    %w: memref<16777216xf32> {optimus.param = "w"},
    %m: memref<16777216xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "w", lifetime = state, init = <zeros>, saved_in = optimizer>}) {
  exec.launch @update(read %m : memref<16777216xf32>, write %m : memref<16777216xf32>) {id = 0 : i32}
  return
}
