// A library appears with a report; all phases are written on request.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: rm -rf %t.phases %t.so
// RUN: optimus-compile %t.mlir -o %t.so --report --dump-phases-to=%t.phases | FileCheck %s
// RUN: test -f %t.so
// RUN: ls %t.phases | FileCheck %s --check-prefix=PHASES
// RUN: ls %t.phases/.. | FileCheck %s --check-prefix=NO-REST
// RUN: llvm-nm --dynamic --defined-only %t.so | FileCheck %s --check-prefix=SYMBOLS

// CHECK:      function {{ *}}commands {{ *}}arena {{ *}}lower bound {{ *}}ratio
// CHECK-NEXT: train_step {{.*}} 1.0{{[0-9]+$}}
// CHECK-NEXT: at the peak {{ *}}activation
// CHECK:      the largest {{ *[a-z ]+ +[0-9.]+ [KM]iB [^ ]+.* \(gpt2.py:[0-9]+\)$}}
// CHECK:      eval_step
// CHECK:      grad_step
// CHECK:      {{[0-9]+}} kernels
// CHECK:      of a rank {{ *}}parameters {{ *}}state {{ *}}gradients {{ *}}inputs {{ *}}arena {{ *}}scratch {{ *}}in all
// CHECK-NEXT: train_step
// CHECK:      1 rank needs {{.*}}; this {{machine|container}} has {{.*}} GiB: it fits

// PHASES:      00-input.mlir
// PHASES-NEXT: 01-differentiate.mlir
// PHASES-NEXT: 02-step.mlir
// PHASES-NEXT: 03-shard.mlir
// PHASES-NEXT: 04-partition.mlir
// PHASES-NEXT: 05-tune.mlir
// PHASES-NEXT: 06-fuse.mlir
// PHASES-NEXT: 07-exec.mlir
// PHASES-NEXT: 08-schedule.mlir
// PHASES-NEXT: 09-place.mlir
// PHASES-NEXT: 10-llvm.mlir

// NO-REST-NOT: .so.{{.*}}tmp

// One entry, and nothing else to clash with another library.
// SYMBOLS:     T optimus_model_query
// SYMBOLS-NOT: T {{.*}}
