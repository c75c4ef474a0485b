// RUN: not optimus-interpret %s --function nothing 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not optimus-interpret %s 2>&1 | FileCheck %s --check-prefix=NO-FUNCTION
// RUN: not optimus-interpret %s --function f 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not optimus-interpret %s --function f --set lr 2>&1 | FileCheck %s --check-prefix=SET
// RUN: not optimus-interpret %s --function f --inputs %t.nowhere 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not optimus-interpret %s --gradcheck 2>&1 | FileCheck %s --check-prefix=GRADIENT
// RUN: not optimus-interpret %t.nowhere --function f 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not optimus-interpret %s --function f --compare-with g --draw 1 2>&1 | FileCheck %s --check-prefix=COMPARE
// RUN: not optimus-interpret %s --function f --draw 1 --outputs %s 2>&1 | FileCheck %s --check-prefix=OUTPUT

// Arrays that are no arrays, or not the right ones.
// RUN: rm -rf %t && mkdir %t && echo text > %t/x.npy
// RUN: not optimus-interpret %s --function h --inputs %t 2>&1 | FileCheck %s --check-prefix=NPY
// RUN: optimus-interpret %s --function h --draw 1 --outputs %t && mv %t/result0.npy %t/x.npy
// RUN: optimus-interpret %s --function h --inputs %t --outputs %t/again && cmp %t/x.npy %t/again/result0.npy
// RUN: not optimus-interpret %s --function tokens --inputs %t 2>&1 | FileCheck %s --check-prefix=TOKENS
// RUN: head -c 140 %t/x.npy > %t/cut && mv %t/cut %t/x.npy
// RUN: not optimus-interpret %s --function h --inputs %t 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: optimus-interpret %s --function wide --draw 1 --outputs %t && mv %t/result0.npy %t/x.npy
// RUN: not optimus-interpret %s --function h --inputs %t 2>&1 | FileCheck %s --check-prefix=SHAPE

// FUNCTION: error: --function: expected a function of the program, found 'nothing'; it has @f, @g, @h, @tokens, @wide
// NO-FUNCTION: error: --function: expected a function of the program, found nothing; it has @f
// VALUE: error: no value for argument 'lr' of @f; give it with --set 'lr=NUMBER' or as 'lr.npy' in the folder of --inputs, or let --draw draw it
// SET: error: --set: expected NAME=NUMBER, found 'lr'
// FOLDER: error: --inputs: there is no folder '{{.*}}.nowhere'
// GRADIENT: error: --gradcheck: expected @loss and @grad, or functions of the kinds eval and grad; found @f, @g, @h, @tokens, @wide
// FILE: optimus-interpret: error: cannot open {{.*}}.nowhere: No such file
// COMPARE: error: result result0 of @f is not that of @g
// OUTPUT: error: {{.*}}tool-invalid.mlir
// NPY: error: '{{.*}}x.npy': expected a .npy file
// TOKENS: error: '{{.*}}x.npy': expected token ids of i32, found {{-?[0-9]+\.[0-9]+$}}
// CUT: error: '{{.*}}x.npy': is cut short: expected 2 elements of 8 bytes, found 12 bytes
// SHAPE: error: '{{.*}}x.npy': expected shape [2], found [3]

func.func @f(%lr: tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = call, filled_by = host>}) -> tensor<f32> {
  return %lr : tensor<f32>
}
func.func @g(%lr: tensor<f32>) -> tensor<f32> {
  %0 = optimus.add %lr, %lr : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @h(%x: tensor<2xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @tokens(%x: tensor<2xi32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>}) -> tensor<2xi32> {
  return %x : tensor<2xi32>
}
func.func @wide(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
