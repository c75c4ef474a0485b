// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-print-commands)' -o /dev/null | FileCheck %s

// How the functions of a step of training follow each other.

// CHECK-LABEL: function train_step
// CHECK:       function accumulate
// CHECK:       function update
// CHECK-NEXT:  sequence train: train_step
// CHECK-NEXT:  sequence train_microbatches: accumulate x N, update
func.func @train_step() { return }
func.func @accumulate() { return }
func.func @update() { return }

// -----

// Of functions that are not there, there are none.
// CHECK-LABEL: function eval_step
// CHECK-NOT:   sequence
func.func @eval_step() { return }
