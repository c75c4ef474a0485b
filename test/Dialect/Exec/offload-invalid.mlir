// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=moments}))' 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state space=device}))' 2>&1 | FileCheck %s --check-prefix=SPACE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state bandwidth=fast}))' 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=h.*:0}))' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-place-buffers,optimus-offload{values=state}))' 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=a.[:0}))' 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state=half}))' 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-offload{values=state profile=%t.absent}))' 2>&1 | FileCheck %s --check-prefix=ABSENT

// KIND: error: offload: expected state, parameters, gradients, activations or ids of values, as h.*.mlp.gelu:*; found 'moments'
// SPACE: error: offload: expected file or host as the space, found 'device'
// RATE: error: offload: expected bytes a second, as 512MiB, or two of them, in and out; found 'fast'
// VALUE: error: expected values to offload, as h.*.mlp.gelu:0; found none that 'h.*:0' matches
// PATTERN: error: offload: expected a value, in which * stands for any part of it; found 'a.[:0': invalid glob pattern, unmatched '['
// SIZE: error: offload: expected a size of state, as state=512MiB; found 'state=half'
// ABSENT: error: offload: profile '{{.*}}absent': {{.*}}No such file
// LATE: error: 'func.func' op has an arena already; buffers are offloaded before
func.func @train(%m: memref<64xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "w", lifetime = state, init = <zeros>, saved_in = optimizer>}) {
  %a = exec.alloc "activation" {values = ["a:0"]} : memref<64xf32>
  exec.copy %a from %m : memref<64xf32> {rows = 1, cols = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>
  return
}
