// Kernels are compiled beside the rest or with it, to the same library: those, too, that read tables.
// RUN: python3 -m optimus.models llama --layers 1 --hidden 32 --heads 4 --kv-heads 2 --ffn 48 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 -o %t.apart.so --mlir-timing 2>&1 | FileCheck %s --check-prefix=APART
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --mlir-disable-threading -o %t.together.so --mlir-timing 2>&1 | FileCheck %s --check-prefix=TOGETHER
// RUN: cmp %t.apart.so %t.together.so
// RUN: optimus-compile %t.mlir --mesh=row:2,col:2 --dump-phases-to=%t.phases -o %t.dumped.so
// RUN: cmp %t.apart.so %t.dumped.so
// RUN: grep -c 'llvm.func hidden @optimus.kernel.rotary' %t.phases/*llvm.mlir

// APART-DAG:    Wait for kernels{{$}}
// APART-DAG:    Kernels{{$}}
// TOGETHER-NOT: kernels{{$}}
// TOGETHER-NOT: Kernels{{$}}
// TOGETHER:     Phase 'llvm'
// TOGETHER-NOT: kernels{{$}}
// TOGETHER-NOT: Kernels{{$}}
