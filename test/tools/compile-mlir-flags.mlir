// MLIR's own flags do in optimus-compile what they do in mlir-opt.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// DEFINE: %{compile} = optimus-compile %t.mlir --compile-to=partition

// One report on times, of all phases.
// RUN: %{compile} --mlir-timing -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMING
// TIMING:     Execution time report
// TIMING:     Parser
// TIMING:     Phase 'differentiate'
// TIMING-NEXT:  RecordFunctionPass
// TIMING-NEXT:  ReplicateHeadsPass
// TIMING-NEXT:  DifferentiatePass
// TIMING:     Phase 'partition'
// TIMING-NEXT:  KeepSerialPass
// TIMING-NEXT:  PartitionPass
// TIMING:     VerifyPartitionPass
// TIMING:     Output
// TIMING:     Total
// TIMING-NOT: Execution time report
// RUN: optimus-compile %t.mlir --mlir-timing --mlir-timing-display=list -o %t.so 2>&1 | FileCheck %s --check-prefix=LIST
// LIST: Code generation
// RUN: optimus-compile %t.mlir --strategy=auto --compile-to=shard --mlir-timing -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHOICE
// CHOICE: Choice of a layout

// RUN: %{compile} --mlir-print-ir-before=optimus-shard -o /dev/null 2>&1 | FileCheck %s --check-prefix=BEFORE
// BEFORE:     IR Dump Before ShardPass
// BEFORE:     optimus.adamw
// BEFORE-NOT: IR Dump
// RUN: %{compile} --mlir-print-ir-after=optimus-shard -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER
// AFTER:     IR Dump After ShardPass
// AFTER:     optimus.shardings
// AFTER-NOT: IR Dump
// RUN: %{compile} --mlir-print-ir-before-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=EACH
// EACH: IR Dump Before DifferentiatePass
// EACH: IR Dump Before PartitionPass
// EACH: IR Dump Before VerifyPartitionPass
// RUN: %{compile} --mlir-print-ir-after-all --mlir-print-ir-after-change -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGE
// CHANGE:     IR Dump After PartitionPass
// CHANGE-NOT: IR Dump After VerifyPartitionPass
// RUN: echo 'module {}' > %t.empty.mlir
// RUN: not optimus-compile %t.empty.mlir --mlir-print-ir-after-failure -o %t.so 2>&1 | FileCheck %s --check-prefix=FAILURE
// FAILURE: IR Dump After DifferentiatePass Failed
// RUN: rm -rf %t.tree && %{compile} --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o /dev/null
// RUN: grep optimus.shardings %t.tree/builtin_module_no-symbol-name/*_optimus-shard.mlir
// RUN: not %{compile} --mlir-print-ir-after-all --mlir-print-ir-module-scope -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCOPE
// SCOPE: error: {{.*}}module scope
// RUN: %{compile} --mlir-print-ir-after=optimus-verify-partition --mlir-print-ir-module-scope --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=MODULE
// MODULE:      IR Dump After VerifyPartitionPass
// MODULE-NEXT: module attributes

// The packaged LLVM counts nothing; the report is there.
// RUN: %{compile} --mlir-pass-statistics -o /dev/null 2>&1 | FileCheck %s --check-prefix=STATISTICS
// STATISTICS: Pass statistics report

// RUN: %{compile} --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// GENERIC: "builtin.module"() ({
// GENERIC: "func.func"()
// RUN: %{compile} --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC
// LOC: #loc
// RUN: not optimus-compile %t.empty.mlir --mlir-print-op-on-diagnostic -o %t.so 2>&1 | FileCheck %s --check-prefix=OP
// OP: note: see current operation

// How IR is printed is no matter of the library.
// RUN: optimus-compile %t.mlir -o %t.plain.so
// RUN: optimus-compile %t.mlir --mlir-print-op-generic --mlir-print-debuginfo --mlir-disable-threading -o %t.generic.so
// RUN: cmp %t.plain.so %t.generic.so

// The reproducer of a failure is whole, and fails again.
// RUN: not optimus-compile %t.empty.mlir --mlir-pass-pipeline-crash-reproducer=%t.crash.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=CRASH
// CRASH: error: expected a function @loss
// CRASH: note: Pipeline failed while executing [`DifferentiatePass` {{.*}}reproducer generated at `{{.*}}crash.mlir`
// CRASH: optimus-compile: error: phase 'differentiate' failed
// RUN: FileCheck %s --check-prefix=REPRODUCER --input-file=%t.crash.mlir
// REPRODUCER: pipeline: "builtin.module({{(optimus-record-function, )?(optimus-replicate-heads.*, )?}}optimus-differentiate{train=})"
// RUN: not optimus-opt --run-reproducer %t.crash.mlir 2>&1 | FileCheck %s --check-prefix=AGAIN
// AGAIN: error: expected a function @loss
// RUN: rm -f %t.none.mlir && %{compile} --mlir-pass-pipeline-crash-reproducer=%t.none.mlir -o /dev/null
// RUN: not ls %t.none.mlir
// RUN: not optimus-compile %t.empty.mlir --mlir-disable-threading --mlir-pass-pipeline-local-reproducer --mlir-pass-pipeline-crash-reproducer=%t.local.mlir -o %t.so
// RUN: FileCheck %s --check-prefix=REPRODUCER --input-file=%t.local.mlir
// RUN: not optimus-compile %t.mlir --mlir-pass-pipeline-local-reproducer --mlir-pass-pipeline-crash-reproducer=%t.local.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: error: --mlir-pass-pipeline-local-reproducer needs --mlir-disable-threading

// It is an output like any other: replaced whole, and never an input.
// RUN: not optimus-compile %t.mlir --mlir-pass-pipeline-crash-reproducer=%t.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: error: --mlir-pass-pipeline-crash-reproducer '{{.*}}' is the same file as the program
// RUN: not optimus-compile %t.mlir --mlir-pass-pipeline-crash-reproducer=%t.nowhere/r.mlir -o %t.so 2>&1 | FileCheck %s --check-prefix=NOWHERE
// NOWHERE: error: cannot write '{{.*}}r.mlir': there is no folder
// RUN: echo old > %t.old.mlir && ln -f %t.old.mlir %t.link.mlir
// RUN: not optimus-compile %t.empty.mlir --mlir-pass-pipeline-crash-reproducer=%t.old.mlir -o %t.so
// RUN: grep differentiate %t.old.mlir
// RUN: not grep differentiate %t.link.mlir

// --help has the driver's own flags first.
// RUN: optimus-compile --help | FileCheck %s --check-prefix=HELP
// HELP:     --help
// HELP:     --mesh AXES
// HELP:     --tune-products
// HELP:     Of MLIR, for those who look into passes;
// HELP:     --mlir-print-ir-after-all
// HELP:     --mlir-timing
// HELP-NOT: --mesh
// RUN: optimus-compile --help-hidden | grep mlir-print-value-users
