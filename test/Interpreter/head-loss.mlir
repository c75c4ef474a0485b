// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 7 | FileCheck %s
// RUN: optimus-interpret %s --function whole_hidden --compare-with serial --draw 7 | FileCheck %s
// RUN: optimus-interpret %s --function look_up --compare-with serial_look_up --draw 7 | FileCheck %s --check-prefix=EMBED

// A vocabulary of 7 in three parts of 3, 5 hidden elements padded to 6, and 3
// sequences on two ranks. The padded sequence has targets of -1.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result1: 0.0e+00 from @serial
// CHECK: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result3: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result4: 0.0e+00 from @serial

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[3, 2, 5], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>>
#hw = #ccl.local<[3, 2, 5], #optimus.sharding<@mesh, [{"row"}, {}, {}]>>
#t = #ccl.local<[7, 5], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tu = #ccl.local<[7, 5], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#tok = #ccl.local<[3, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#s = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>

func.func @serial(%h: tensor<3x2x5xf32>, %table: tensor<7x5xf32>, %targets: tensor<3x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<f32>) {
  %l, %c, %dh, %dt = optimus.head_loss_grad %h, %table, %targets : (tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<3x2xi32>) -> (tensor<f32>, tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>)
  %l2, %c2 = optimus.head_loss %h, %table, %targets : (tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<3x2xi32>) -> (tensor<f32>, tensor<f32>)
  return %l, %c, %dh, %dt, %c2 : tensor<f32>, tensor<f32>, tensor<3x2x5xf32>, tensor<7x5xf32>, tensor<f32>
}
func.func @sharded(%h: tensor<2x2x2xf32, #h>, %table: tensor<3x6xf32, #t>, %targets: tensor<2x2xi32, #tok> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<f32>) {
  %l, %c, %dh, %dt = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 2 : i64} : (tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<2x2xi32, #tok>) -> (tensor<f32, #s>, tensor<f32, #s>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #tu>)
  %l2, %c2 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 2 : i64} : (tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<2x2xi32, #tok>) -> (tensor<f32, #s>, tensor<f32, #s>)
  %lr = ccl.all_reduce %l {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %cr = ccl.all_reduce %c {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %cr2 = ccl.all_reduce %c2 {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %dtr = ccl.all_reduce %dt {axis = "row"} : (tensor<3x6xf32, #tu>) -> tensor<3x6xf32, #t>
  return %lr, %cr, %dh, %dtr, %cr2 : tensor<f32>, tensor<f32>, tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>, tensor<f32>
}
func.func @whole_hidden(%h: tensor<2x2x6xf32, #hw>, %table: tensor<3x6xf32, #t>, %targets: tensor<2x2xi32, #tok> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>, tensor<2x2x6xf32, #hw>, tensor<3x6xf32, #t>, tensor<f32>) {
  %l, %c, %dh, %dt = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 2 : i64} : (tensor<2x2x6xf32, #hw>, tensor<3x6xf32, #t>, tensor<2x2xi32, #tok>) -> (tensor<f32, #s>, tensor<f32, #s>, tensor<2x2x6xf32, #hw>, tensor<3x6xf32, #tu>)
  %lr = ccl.all_reduce %l {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %cr = ccl.all_reduce %c {axis = "row"} : (tensor<f32, #s>) -> tensor<f32>
  %dtr = ccl.all_reduce %dt {axis = "row"} : (tensor<3x6xf32, #tu>) -> tensor<3x6xf32, #t>
  return %lr, %cr, %dh, %dtr, %cr : tensor<f32>, tensor<f32>, tensor<2x2x6xf32, #hw>, tensor<3x6xf32, #t>, tensor<f32>
}

// Looking up in parts of a table gives partial sums, which reduce_scatter adds up.
// EMBED: result0: 0.0e+00 from @serial_look_up
// EMBED: result1: {{0\.0e\+00|[0-9.]+e-1[5-9]}} from @serial_look_up
#eu = #ccl.local<[3, 2, 5], #optimus.sharding<@mesh, [{"row"}, {}, {}], unreduced = {"col"}>>
func.func @serial_look_up(%table: tensor<7x5xf32>, %tokens: tensor<3x2xi32> {optimus.binding = "tokens"}, %dy: tensor<3x2x5xf32>) -> (tensor<3x2x5xf32>, tensor<7x5xf32>) {
  %x = optimus.embedding %table, %tokens : (tensor<7x5xf32>, tensor<3x2xi32>) -> tensor<3x2x5xf32>
  %d = optimus.embedding_grad %dy, %tokens accumulate(%table) : (tensor<3x2x5xf32>, tensor<3x2xi32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  return %x, %d : tensor<3x2x5xf32>, tensor<7x5xf32>
}
func.func @look_up(%table: tensor<3x6xf32, #t>, %tokens: tensor<2x2xi32, #tok> {optimus.binding = "tokens"}, %dy: tensor<2x2x2xf32, #h>) -> (tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>) {
  %xu = optimus.embedding %table, %tokens : (tensor<3x6xf32, #t>, tensor<2x2xi32, #tok>) -> tensor<2x2x6xf32, #eu>
  %x = ccl.reduce_scatter %xu {axis = "col", dim = 2 : i64} : (tensor<2x2x6xf32, #eu>) -> tensor<2x2x2xf32, #h>
  %dyw = ccl.all_gather %dy {axis = "col", dim = 2 : i64} : (tensor<2x2x2xf32, #h>) -> tensor<2x2x6xf32, #hw>
  %du = optimus.embedding_grad %dyw, %tokens : (tensor<2x2x6xf32, #hw>, tensor<2x2xi32, #tok>) -> tensor<3x6xf32, #tu>
  %d = ccl.all_reduce %du {axis = "row"} : (tensor<3x6xf32, #tu>) -> tensor<3x6xf32, #t>
  %sum = optimus.add %d, %table : (tensor<3x6xf32, #t>, tensor<3x6xf32, #t>) -> tensor<3x6xf32, #t>
  return %x, %sum : tensor<2x2x2xf32, #h>, tensor<3x6xf32, #t>
}
