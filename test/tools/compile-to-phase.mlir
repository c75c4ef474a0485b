// Every phase stops where it says.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-compile %t.mlir --compile-to=input | FileCheck %s --check-prefix=INPUT
// RUN: optimus-compile %t.mlir --compile-to=differentiate | FileCheck %s --check-prefix=GRAD
// RUN: optimus-compile %t.mlir --compile-to=step | FileCheck %s --check-prefix=STEP
// RUN: optimus-compile %t.mlir --compile-to=exec | FileCheck %s --check-prefix=EXEC
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --compile-to=schedule | FileCheck %s --check-prefix=SCHEDULE
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --schedule=none --compile-to=schedule | FileCheck %s --check-prefix=ADJACENT
// RUN: optimus-compile %t.mlir --compile-to=place | FileCheck %s --check-prefix=PLACE
// RUN: optimus-compile %t.mlir --compile-to=llvm | FileCheck %s --check-prefix=LLVM

// What a phase wrote can be gone on from, to the same library.
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 -o %t.so
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --compile-to=partition -o %t.partition.mlir
// RUN: optimus-compile %t.partition.mlir --mesh=row:2,col:2 --compile-from=partition -o %t.partition.so
// RUN: cmp %t.so %t.partition.so
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --compile-to=place -o %t.place.mlir
// RUN: optimus-compile %t.place.mlir --mesh=row:2,col:2 --compile-from=place -o %t.place.so
// RUN: cmp %t.so %t.place.so

// A race that somebody else put there is refused, and no library appears.
// RUN: sed -e 's/after = array<i32: [0-9, ]*>, //' %t.place.mlir > %t.race.mlir
// RUN: rm -f %t.race.so
// RUN: not optimus-compile %t.race.mlir --mesh=row:2,col:2 --compile-from=place -o %t.race.so 2>&1 | FileCheck %s --check-prefix=RACE
// RUN: not ls %t.race.so
// RACE: error: the table of commands is wrong: {{.*}} and nothing orders the two
// RACE: optimus-compile: error: phase 'llvm' failed

// RUN: not optimus-compile %t.mlir --compile-from=partition -o %t.none.so 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: expected a program that the phase 'partition' made, found @loss, of which the phase 'step' has yet to make steps; leave --compile-from out
// RUN: optimus-compile %t.mlir --precision=bf16 --compile-to=step -o %t.bf16.mlir
// RUN: not optimus-compile %t.bf16.mlir --compile-from=step --precision=bf16 --reduce-precision=bf16 -o %t.none.so 2>&1 | FileCheck %s --check-prefix=REDUCE
// REDUCE: error: --reduce-precision: '{{.*}}' was compiled with the default as far as 'step', found 'bf16'; leave the flag out, or start before 'step'

// INPUT:     func.func @loss
// INPUT-NOT: func.func @grad

// GRAD:     func.func @grad
// GRAD-NOT: func.func @train_step

// STEP: func.func @train_step
// STEP: optimus.adamw

// EXEC-LABEL: func.func @train_step
// EXEC:       exec.local_type = tensor<64x32xf32{{.*}}optimus.param = "wte.weight"
// EXEC:       exec.alloc
// EXEC-NOT:   optimus.matmul

// SCHEDULE-LABEL: func.func @train_step
// SCHEDULE:       exec.schedule = {
// SCHEDULE:       exec.alloc
// SCHEDULE:       exec.collective_start
// SCHEDULE-NOT:   exec.wait
// SCHEDULE:       exec.collective_start

// ADJACENT-LABEL: func.func @train_step
// ADJACENT:       exec.schedule = {extra_workspace_bytes = 0 : i64
// ADJACENT:       exec.collective_start
// ADJACENT-NEXT:  exec.wait

// PLACE-LABEL: func.func @train_step
// PLACE-NOT:   exec.alloc
// PLACE:       exec.arena_slot

// LLVM:     llvm.mlir.global internal constant @optimus.manifest(
// LLVM-NOT: func.func
// LLVM:     llvm.func @optimus_model_query
