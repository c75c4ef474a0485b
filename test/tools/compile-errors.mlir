// RUN: not optimus-compile %s -o %t.so 2>&1 | FileCheck %s --check-prefix=PARSE
// PARSE: compile-errors.mlir:[[#@LINE+4]]:{{[0-9]+}}: error:

func.func @loss(%x: tensor<4xf32>) -> tensor<f32> {
  // The result of this operation has no type.
  %0 = optimus.gelu %x
  return %0 : tensor<f32>
}

// RUN: not optimus-compile %t.absent.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: {{.*}}absent.mlir

// Files that are no programs, and beginnings that a program may have.
// RUN: printf '\n// A comment.\n# A heading\n' >%t.md
// RUN: not optimus-compile %t.md -o %t.so 2>&1 | FileCheck %s --check-prefix=PROSE
// RUN: not optimus-interpret %t.md 2>&1 | FileCheck %s --check-prefix=PROSE
// PROSE: error: expected a program in MLIR, as python3 -m optimus.models writes it, which begins with an operation, such as `module`, or an alias; found `# A heading` in line 3 of '{{.*}}.md'{{$}}
// RUN: printf '{"model_type": "gpt2", "a long line": "is quoted from its begin"}' | not optimus-compile - -o %t.so 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: found `{"model_type": "gpt2", "a long line": "i` and more in line 1 of '-'
// RUN: printf 'a\0b' | not optimus-compile - -o %t.so 2>&1 | FileCheck %s --check-prefix=BINARY
// BINARY: error: '-' is a binary file; expected a program in MLIR, as python3 -m optimus.models writes it
// RUN: printf '#a = i32\n!t = i32\n"builtin.module"() ({}) : () -> ()' | not optimus-compile - -o %t.so 2>&1 | FileCheck %s --check-prefix=BEGIN
// RUN: printf '!t = i32\nmodule {}' | not optimus-compile - -o %t.so 2>&1 | FileCheck %s --check-prefix=BEGIN
// RUN: printf 'func.func private @other()' | not optimus-compile - -o %t.so 2>&1 | FileCheck %s --check-prefix=BEGIN
// BEGIN-NOT: expected a program in MLIR

// RUN: not optimus-compile %s --strategy=magic -o %t.so 2>&1 | FileCheck %s --check-prefix=STRATEGY
// STRATEGY: error: --strategy: unknown strategy 'magic'; known are auto, serial, summa, summa-paper, megatron

// RUN: not optimus-compile %s --strategy=serial --mesh=row:2,col:2 -o %t.so 2>&1 | FileCheck %s --check-prefix=SERIAL
// SERIAL: error: --strategy: 'serial' is for one rank, but the mesh row:2,col:2 has 4

// RUN: not optimus-compile 2>&1 | FileCheck %s --check-prefix=INPUT
// INPUT: error: PROGRAM.mlir is required
// RUN: not optimus-compile %s --mesh=row:2,column:2 -o %t.so 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: error: --mesh: 'row:2,column:2' has no axis 'col', which strategy 'summa' uses; give both, as row:1,col:4{{$}}
// RUN: not optimus-compile %s --mesh=data:4 -o %t.so 2>&1 | FileCheck %s --check-prefix=DATA
// DATA: error: --mesh: 'data:4' has no axis 'row', which strategy 'summa' uses; give both, as row:1,col:4, or choose strategy data
// RUN: not optimus-compile %s --recompute=h.7.ln_1 -o %t.so 2>&1 | FileCheck %s --check-prefix=RECOMPUTE
// RECOMPUTE: error: --recompute: unknown policy 'h.7.ln_1'; known are {{.*}}; ids of values have a colon, as h.*.mlp.gelu:*

// RUN: not optimus-compile %s --mesh=row:2,col -o %t.so 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: --mesh: bad mesh 'row:2,col': the size of axis 'col' is ''
// RUN: not optimus-compile %s --mesh=row:0,col:2 -o %t.so 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: --mesh: bad mesh 'row:0,col:2': the size of axis 'row' is '0'
// RUN: not optimus-compile %s --mesh=row:2,row:2 -o %t.so 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: --mesh: bad mesh 'row:2,row:2': axis 'row' is named twice

// RUN: not optimus-compile %s -o %t.nowhere/model.so 2>&1 | FileCheck %s --check-prefix=FOLDER
// FOLDER: error: cannot write '{{.*}}model.so': there is no folder
// RUN: not optimus-compile %s 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: error: give the model library a name with -o FILE

// RUN: not optimus-compile %s --mcpu=abacus -o %t.so 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: error: --mcpu: unknown processor 'abacus' for {{.*}}; known are native, {{[a-z0-9-]+}}, {{[a-z0-9-]+}},
// RUN: not optimus-compile %s --mcpu=natvie -o %t.so 2>&1 | FileCheck %s --check-prefix=NEAR
// NEAR: error: --mcpu: unknown processor 'natvie' for {{.*}}; did you mean 'native'?; known are native,
// RUN: not optimus-compile %s --mcpu=aarch64-linux-gnu:native -o %t.so 2>&1 | FileCheck %s --check-prefix=ARM
// ARM: error: --mcpu: unknown processor 'native' for aarch64; known are {{[a-z0-9-]+}}, {{[a-z0-9-]+}},
// RUN: not optimus-compile %s --mcpu=arm64-apple-macos:apple-m1 -o %t.so 2>&1 | FileCheck %s --check-prefix=TRIPLE
// TRIPLE: error: --mcpu: expected the triple of a 64-bit little-endian Linux, as aarch64-linux-gnu, found 'arm64-apple-macos'
// RUN: not optimus-compile %s --optimizer=adam -o %t.so 2>&1 | FileCheck %s --check-prefix=OPTIMIZER
// OPTIMIZER: error: --optimizer: unknown optimizer 'adam'; known are adamw, lamb, sgd
// RUN: not optimus-compile %s --compile-to=moon 2>&1 | FileCheck %s --check-prefix=PHASE
// PHASE: error: --compile-to: unknown phase 'moon'; known are input, differentiate
// RUN: not optimus-compile %s --schedule=luck -o %t.so 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: error: --schedule: unknown schedule 'luck'; known are none, time, memory, balanced
// RUN: not optimus-compile %s --move=quick -o %t.so 2>&1 | FileCheck %s --check-prefix=MOVE
// MOVE: error: --move: unknown way 'quick'; known are auto, panels, whole
// RUN: not optimus-compile %s --move=whole --tune-products -o %t.so 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: error: --move and --tune-products both say how products move; give one
// RUN: not optimus-compile %s --panels=0 -o %t.so 2>&1 | FileCheck %s --check-prefix=PANELS
// PANELS: error: --panels: expected a number from 1 to 64, found 0
// RUN: not optimus-compile %s --panels=4 --move=whole -o %t.so 2>&1 | FileCheck %s --check-prefix=WHOLE
// WHOLE: error: --panels: with --move whole nothing moves in panels
// RUN: not optimus-compile %s --layout=h.0.mlp.c_proj.weight -o %t.so 2>&1 | FileCheck %s --check-prefix=LAYOUT
// LAYOUT: error: --layout: expected PATTERN=LAYOUT, as h.*.mlp.c_proj.weight=row,col; found 'h.0.mlp.c_proj.weight'
// RUN: not optimus-compile %s --layout='h.[.weight=row,col' -o %t.so 2>&1 | FileCheck %s --check-prefix=PATTERN
// PATTERN: error: --layout: expected a path, in which * stands for any part of it; found 'h.[.weight': invalid glob pattern, unmatched '['
// RUN: not optimus-compile %s --layout=*.c_proj.weight=row,cl -o %t.so 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: error: --layout: expected row, col, data or - for each dimension, joined by +; found 'cl' in 'row,cl'
// RUN: not optimus-compile %s --layout=*.c_proj.weight=row+col,row -o %t.so 2>&1 | FileCheck %s --check-prefix=DOUBLE
// DOUBLE: error: --layout: the axis 'row' shards twice in 'row+col,row'
// RUN: not optimus-compile %s --memory-budget=plenty -o %t.so 2>&1 | FileCheck %s --check-prefix=BUDGET
// BUDGET: error: --memory-budget: expected a size as 16GiB, 512MiB or bytes, or auto, found 'plenty'
// RUN: not optimus-compile %s --report-json=- --compile-to=exec 2>&1 | FileCheck %s --check-prefix=JSON
// JSON: error: --report-json: expected --compile-to place or llvm, since memory is placed there; found exec
// RUN: not optimus-compile %s --compile-from=llvm -o %t.so 2>&1 | FileCheck %s --check-prefix=FROM
// FROM: error: --compile-from: unknown phase 'llvm'; known are input, differentiate
// RUN: not optimus-compile %s --compile-from=fuse --compile-to=step 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER: error: --compile-to: the phase 'step' is not after 'fuse', where compilation starts
// RUN: not optimus-compile %s --compile-from=shard --strategy=auto -o %t.so 2>&1 | FileCheck %s --check-prefix=CHOICE
// CHOICE: error: --compile-from: name a strategy and a policy of recomputation
// RUN: not optimus-compile %s --serial=%s -o %t.so 2>&1 | FileCheck %s --check-prefix=PROOF
// RUN: not optimus-compile %s --compile-from=fuse --serial=%s -o %t.so 2>&1 | FileCheck %s --check-prefix=PROOF
// RUN: not optimus-compile %s --compile-from=partition --compile-to=tune --serial=%s 2>&1 | FileCheck %s --check-prefix=PROOF
// PROOF: error: --serial: expected --compile-from partition or tune, and no --compile-to before fuse
// RUN: not optimus-compile %s --extra-workspace=10parsecs -o %t.so 2>&1 | FileCheck %s --check-prefix=WORKSPACE
// WORKSPACE: error: --extra-workspace: extra workspace '10parsecs': expected a percentage of the peak
// RUN: echo '[]' > %t.profile.json
// RUN: not optimus-compile %s --machine-profile=%t.profile.json -o %t.so 2>&1 | FileCheck %s --check-prefix=PROFILE
// PROFILE: error: --machine-profile: machine profile '{{.*}}profile.json': expected an object

// A diagnostic does not print the program.
// RUN: echo 'module {}' > %t.empty.mlir
// RUN: not optimus-compile %t.empty.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: expected a function @loss
// EMPTY-NOT: see current operation
