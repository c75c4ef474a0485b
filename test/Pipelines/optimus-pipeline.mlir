// The registered pipeline and optimus-compile make the same of a program, with
// the same flags. The record of the flags is the driver's alone.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 4 -o %t.mlir
// DEFINE: %{flags} =
// DEFINE: %{options} =
// DEFINE: %{phase} =
// DEFINE: %{compare} = optimus-compile %t.mlir %{flags} --compile-to=%{phase} -o %t.driver.mlir \
// DEFINE:   && sed -E 's/optimus.compilation = \{[^}]*\}, //' %t.driver.mlir | optimus-opt -o %t.expected.mlir \
// DEFINE:   && optimus-opt %t.mlir --optimus-pipeline='%{options} to=%{phase}' -o %t.actual.mlir \
// DEFINE:   && diff %t.expected.mlir %t.actual.mlir

// REDEFINE: %{phase} = input
// RUN: %{compare}
// REDEFINE: %{phase} = llvm
// RUN: %{compare}
// REDEFINE: %{flags} = --mesh=row:2,col:2 --mcpu=x86-64
// REDEFINE: %{options} = mesh=row:2,col:2 mcpu=x86-64
// RUN: %{compare}
// REDEFINE: %{flags} = --mesh=data:2,row:2,col:2 --strategy=megatron-sp --optimizer=lamb --accumulate --recompute=layer --schedule=none
// REDEFINE: %{options} = mesh=data:2,row:2,col:2 strategy=megatron-sp optimizer=lamb accumulate recompute=layer schedule=none
// REDEFINE: %{phase} = schedule
// RUN: %{compare}
// REDEFINE: %{flags} = --mesh=row:2,col:2 --panels=4 --layout=h.*.mlp.c_proj.weight=row,col --layout=h.0.mlp.c_fc.weight=row,col --extra-workspace=64MiB --no-pad
// REDEFINE: %{options} = mesh=row:2,col:2 panels=4 layout=h.*.mlp.c_proj.weight=row,col;h.0.mlp.c_fc.weight=row,col extra-workspace=64MiB no-pad
// REDEFINE: %{phase} = place
// RUN: %{compare}

// It goes on from what it made.
// RUN: optimus-opt %t.mlir --optimus-pipeline='mesh=row:2,col:2 to=tune' --mlir-print-debuginfo -o %t.tuned.mlir
// RUN: optimus-opt %t.tuned.mlir --optimus-pipeline='mesh=row:2,col:2 from=tune to=place' -o %t.two.mlir
// RUN: optimus-opt %t.mlir --optimus-pipeline='mesh=row:2,col:2 to=place' -o %t.one.mlir
// RUN: diff %t.one.mlir %t.two.mlir

// What is wrong with an option is said before anything runs.
// DEFINE: %{refused} = not optimus-opt %t.mlir
// RUN: %{refused} --optimus-pipeline='to=fuse serial=%t.mlir' 2>&1 | FileCheck %s --check-prefix=PROOF
// PROOF: error: --optimus-pipeline: serial: expected from=partition or from=tune, and to=fuse or later
// RUN: %{refused} --optimus-pipeline='to=plce' 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: --optimus-pipeline: to: unknown phase 'plce'; known are input, differentiate, {{.*}}llvm; did you mean 'place'?
// RUN: %{refused} --optimus-pipeline='from=place to=exec' 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: --optimus-pipeline: to: the phase 'exec' is before 'place'
// RUN: %{refused} --optimus-pipeline='mesh=row:2,col' 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: --optimus-pipeline: mesh: bad mesh 'row:2,col'
// RUN: %{refused} --optimus-pipeline='strategy=auto' 2>&1 | FileCheck %s --check-prefix=STRATEGY
// STRATEGY: error: --optimus-pipeline: strategy: unknown strategy 'auto'; known are serial, summa
// RUN: %{refused} --optimus-pipeline='mesh=row:2,col:2 strategy=serial' 2>&1 | FileCheck %s --check-prefix=SERIAL
// SERIAL: error: --optimus-pipeline: strategy: 'serial' is for one rank, but the mesh row:2,col:2 has 4
// RUN: %{refused} --optimus-pipeline='panels=4 move=whole' 2>&1 | FileCheck %s --check-prefix=PANELS
// PANELS: error: --optimus-pipeline: panels: with move whole nothing moves in panels
// RUN: %{refused} --optimus-pipeline='recompute=auto' 2>&1 | FileCheck %s --check-prefix=RECOMPUTE
// RECOMPUTE: error: --optimus-pipeline: recompute: unknown policy 'auto'; known are none, attention, layer
// RUN: %{refused} --optimus-pipeline='schedule=luck' 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: error: --optimus-pipeline: schedule: unknown schedule 'luck'
// RUN: %{refused} --optimus-pipeline='mesh=row:2,col:2 mcpu=abacus' 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: error: mcpu: unknown processor 'abacus'

// --help names it among the passes.
// RUN: optimus-opt --help | FileCheck %s --check-prefix=HELP
// HELP: --optimus-pipeline
// HELP: --optimus-shard
