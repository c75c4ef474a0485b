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
