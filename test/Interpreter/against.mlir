// RUN: split-file %s %t
// RUN: optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/doubled.mlir | FileCheck %s --check-prefix=SAME
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/square.mlir 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/nan.mlir 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not optimus-interpret %t/nan.mlir --function f --draw 1 --against %t/sum.mlir 2>&1 | FileCheck %s --check-prefix=FOUND-NAN
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/two.mlir 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/renamed.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/commands.mlir 2>&1 | FileCheck %s --check-prefix=COMMANDS
// RUN: not optimus-interpret %t/sum.mlir --function f --draw 1 --against %t/nowhere.mlir 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not optimus-interpret %t/commands.mlir --function f --compare-with f --draw 1 2>&1 | FileCheck %s --check-prefix=COMPARE
// RUN: not optimus-interpret %t/nan.mlir --function f --compare-with f --draw 1 2>&1 | FileCheck %s --check-prefix=UNCOMPARED

// Two programs on the same arguments. What is not a number is equal to nothing.

// SAME: result0: 0.0e+00 from the reference
// VALUE: error: --against: element {{[0-3]}} of result result0 is {{.*}}; expected
// NAN: error: --against: result result0 is not finite there, so nothing can be compared; give other arguments
// FOUND-NAN: error: --against: element 0 of result result0 is nan; expected
// COUNT: error: --against: @f has 1 results, there 2
// ARGUMENT: error: --against: @f takes 'y', which the program does not
// COMMANDS: error: --against: expected a function @f on tensors in '{{.*}}commands.mlir'
// FILE: error: cannot open {{.*}}nowhere.mlir
// COMPARE: error: --compare-with: expected functions on tensors, found commands; compare these --against a program
// UNCOMPARED: error: result result0 of @f is not finite, so nothing can be compared; give other arguments

//--- sum.mlir
func.func @f(%x: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<4xf32> {
  %0 = optimus.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- doubled.mlir
func.func @f(%x: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<4xf32> {
  %two = arith.constant dense<2.0> : tensor<4xf32>
  %0 = optimus.mul %x, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- square.mlir
func.func @f(%x: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<4xf32> {
  %0 = optimus.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- nan.mlir
func.func @f(%x: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<4xf32> {
  %nan = arith.constant dense<0x7FC00000> : tensor<4xf32>
  return %nan : tensor<4xf32>
}

//--- two.mlir
func.func @f(%x: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

//--- renamed.mlir
func.func @f(%y: tensor<4xf32> {optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) -> tensor<4xf32> {
  return %y : tensor<4xf32>
}

//--- commands.mlir
func.func @f(%x: memref<4xf32> {exec.access = "read", exec.local_type = tensor<4xf32>, optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) {
  return
}
