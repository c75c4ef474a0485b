// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-print-commands)' -o /dev/null | FileCheck %s

// How the functions of a step of training follow each other, whatever their
// names are.

// CHECK-LABEL: function train_step
// CHECK:       function add_up
// CHECK:       function update
// CHECK-NEXT:  sequence train: train_step
// CHECK-NEXT:  sequence train_microbatches: add_up x N, update
func.func @train_step() attributes {optimus.entry = #optimus.entry<train>} { return }
func.func @add_up() attributes {optimus.entry = #optimus.entry<accumulate>} { return }
func.func @update() attributes {optimus.entry = #optimus.entry<update>} { return }

// -----

// Of functions that are not there, there are none; a name is for people.
// CHECK-LABEL: function eval_step
// CHECK-NOT:   sequence
func.func @eval_step() attributes {optimus.entry = #optimus.entry<eval>} { return }
func.func @train_step() { return }

// -----

// What the microbatches of a step read is prepared before them, once; and nothing that
// others read.
// CHECK:      function get_ready (prepares)
// CHECK:      sequence train_microbatches: get_ready, accumulate x N, update
func.func @accumulate(%p: memref<64xf32> {exec.access = "read", optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>})
    attributes {optimus.entry = #optimus.entry<accumulate>} { return }
func.func @update() attributes {optimus.entry = #optimus.entry<update>} { return }
func.func @of_others(%p: memref<64xf32> {exec.access = "write", optimus.binding = #optimus.buffer<role = "packed_2", of = "w", lifetime = sequence>})
    attributes {optimus.entry = #optimus.entry<prepare>} { return }
func.func @get_ready(%p: memref<64xf32> {exec.access = "write", optimus.binding = #optimus.buffer<role = "packed", of = "w", lifetime = sequence>})
    attributes {optimus.entry = #optimus.entry<prepare>} { return }
