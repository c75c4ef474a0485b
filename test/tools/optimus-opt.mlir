// RUN: optimus-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: optimus-opt --list-passes | FileCheck %s --check-prefix=PASSES
// RUN: not optimus-opt %s 2>&1 | FileCheck %s

// DIALECTS: ccl
// DIALECTS-SAME: exec
// DIALECTS-SAME: optimus

// PASSES: --canonicalize
// PASSES: --optimus-differentiate
// PASSES: --optimus-exec-to-llvm
// PASSES: --optimus-to-exec

// What does not parse is reported where it stands, and the tool fails.
// CHECK: optimus-opt.mlir:[[# @LINE + 2]]:3: error: custom op 'this' is unknown
func.func @not_mlir() {
  this is no program
}

// Reproducers are outputs like any other: whole, and never an input.
// RUN: echo 'module {}' > %t.empty.mlir
// RUN: echo old > %t.crash.mlir && ln -f %t.crash.mlir %t.link.mlir
// RUN: not optimus-opt %t.empty.mlir --optimus-differentiate --mlir-pass-pipeline-crash-reproducer=%t.crash.mlir 2>&1 | FileCheck %s --check-prefix=CRASH
// CRASH: reproducer generated at `{{.*}}crash.mlir`
// RUN: grep optimus-differentiate %t.crash.mlir
// RUN: not grep optimus-differentiate %t.link.mlir
// RUN: optimus-opt %t.empty.mlir --cse --mlir-generate-reproducer=%t.crash.mlir
// RUN: grep 'builtin.module(cse)' %t.crash.mlir
// RUN: not grep module %t.link.mlir
// RUN: not optimus-opt %t.empty.mlir --cse --mlir-generate-reproducer=%t.empty.mlir 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not optimus-opt %t.empty.mlir --cse --profile-actions-to=%t.empty.mlir 2>&1 | FileCheck %s --check-prefix=SAME
// SAME: is the same file as the input
