// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 7 | FileCheck %s
// RUN: optimus-interpret %s --function lengths --print | FileCheck %s --check-prefix=LENGTHS

// The bias of a vocabulary of 7 in three parts of 3 is sharded as the table's rows.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result3: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[3, 2, 5], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>>
#t = #ccl.local<[7, 5], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tu = #ccl.local<[7, 5], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#b = #ccl.local<[7], #optimus.sharding<@mesh, [{"col"}]>>
#bu = #ccl.local<[7], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
#tok = #ccl.local<[3, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#s = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

func.func @serial(%h: tensor<3x2x5xf32>, %table: tensor<7x5xf32>, %bias: tensor<7xf32>, %targets: tensor<3x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<7xf32>) {
  %l, %c, %dh, %dt, %db = optimus.head_loss_grad %h, %table, %targets bias(%bias) : (tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<3x2xi32>, tensor<7xf32>) -> (tensor<f32>, tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<7xf32>)
  return %l, %dh, %dt, %db : tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<7xf32>
}
func.func @sharded(%h: tensor<2x2x2xf32, #h>, %table: tensor<3x6xf32, #t>, %bias: tensor<3xf32, #b>, %targets: tensor<2x2xi32, #tok> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<3xf32, #b>) {
  %l, %c, %dh, %dt, %db = ccl.head_loss_grad %h, %table, %targets bias(%bias) {axis = "col", chunk = 2 : i64} : (tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<2x2xi32, #tok>, tensor<3xf32, #b>) -> (tensor<f32, #s>, tensor<f32, #s>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #tu>, tensor<3xf32, #bu>)
  %lr = ccl.all_reduce %l {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %dtr = ccl.all_reduce %dt {axis = "row"} : (tensor<3x6xf32, #tu>) -> tensor<3x6xf32, #t>
  %dbr = ccl.all_reduce %db {axis = "row"} : (tensor<3xf32, #bu>) -> tensor<3xf32, #b>
  return %lr, %dh, %dtr, %dbr : tensor<f32>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<3xf32, #b>
}

// Only what follows the last real token is padding; no sequence is empty.
// LENGTHS: result0 = [3, 1, 1, 4]
// Where there is a target, a token was hidden.
// LENGTHS: result1 = [4, 2, 1, 4]
func.func @lengths() -> (tensor<4xi32>, tensor<4xi32>) {
  %tokens = arith.constant dense<[[5, 0, 2, 0], [0, 0, 0, 0], [7, 0, 0, 0], [0, 0, 0, 1]]> : tensor<4x4xi32>
  %targets = arith.constant dense<[[-1, 5, -1, 6], [-1, 0, -1, -1], [7, -1, -1, -1], [-1, -1, -1, 1]]> : tensor<4x4xi32>
  %0 = optimus.lengths %tokens {pad = 0 : i64} : (tensor<4x4xi32>) -> tensor<4xi32>
  %1 = optimus.lengths %tokens targets(%targets) {pad = 0 : i64} : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
