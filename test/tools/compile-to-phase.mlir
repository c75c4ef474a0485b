// Every phase stops where it says.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-compile %t.mlir --compile-to=input | FileCheck %s --check-prefix=INPUT
// RUN: optimus-compile %t.mlir --compile-to=differentiate | FileCheck %s --check-prefix=GRAD
// RUN: optimus-compile %t.mlir --compile-to=step | FileCheck %s --check-prefix=STEP
// RUN: optimus-compile %t.mlir --compile-to=exec | FileCheck %s --check-prefix=EXEC
// RUN: optimus-compile %t.mlir --compile-to=place | FileCheck %s --check-prefix=PLACE
// RUN: optimus-compile %t.mlir --compile-to=llvm | FileCheck %s --check-prefix=LLVM

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

// PLACE-LABEL: func.func @train_step
// PLACE-NOT:   exec.alloc
// PLACE:       exec.arena_slot

// LLVM:     llvm.mlir.global internal constant @optimus.manifest(
// LLVM-NOT: func.func
// LLVM:     llvm.func @optimus_model_query
