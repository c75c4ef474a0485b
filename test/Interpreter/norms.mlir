// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded_grad --compare-with serial_grad --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function whole_but_padded --compare-with serial --draw 1 | FileCheck %s

// A row of 5 elements, sharded in three: 2, 2 and 1 with one of padding; and 4 rows
// of which two ranks hold 2 each. Moments are merged with the true counts.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#v = #ccl.local<[5], #optimus.sharding<@mesh, [{"col"}]>>
#vu = #ccl.local<[5], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
#stat = #ccl.local<[4, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#sum = #ccl.local<[4, 2], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#parts = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#stats = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>

func.func @serial(%x: tensor<4x5xf32>, %gain: tensor<5xf32>, %shift: tensor<5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-05 : f64} : (tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y, %mean, %rstd : tensor<4x5xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @sharded(%x: tensor<2x2xf32, #x>, %gain: tensor<2xf32, #v>, %shift: tensor<2xf32, #v>) -> (tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>) {
  %part = optimus.row_moments %x : (tensor<2x2xf32, #x>) -> tensor<2x2xf32, #parts>
  %all = ccl.all_gather %part {axis = "col", dim = 1 : i64} : (tensor<2x2xf32, #parts>) -> tensor<2x6xf32, #stats>
  %mean, %rstd = optimus.merge_moments %all {counts = array<i64: 2, 2, 1>, epsilon = 1.0e-05 : f64} : (tensor<2x6xf32, #stats>) -> (tensor<2xf32, #r>, tensor<2xf32, #r>)
  %y = optimus.normalize %x, %mean, %rstd, %gain, %shift : (tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>, tensor<2xf32, #v>, tensor<2xf32, #v>) -> tensor<2x2xf32, #x>
  return %y, %mean, %rstd : tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>
}

func.func @serial_grad(%dy: tensor<4x5xf32>, %x: tensor<4x5xf32>, %mean: tensor<4xf32>, %rstd: tensor<4xf32>, %gain: tensor<5xf32>, %res: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %mean, %rstd, %gain residual(%res) : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>)
  return %dx, %dg, %db : tensor<4x5xf32>, tensor<5xf32>, tensor<5xf32>
}
func.func @sharded_grad(%dy: tensor<2x2xf32, #x>, %x: tensor<2x2xf32, #x>, %mean: tensor<2xf32, #r>, %rstd: tensor<2xf32, #r>, %gain: tensor<2xf32, #v>, %res: tensor<2x2xf32, #x>) -> (tensor<2x2xf32, #x>, tensor<2xf32, #v>, tensor<2xf32, #v>) {
  %part = optimus.norm_grad_sums %dy, %x, %mean, %rstd, %gain : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>, tensor<2xf32, #v>) -> tensor<2x2xf32, #sum>
  %sums = ccl.all_reduce %part {axis = "col"} : (tensor<2x2xf32, #sum>) -> tensor<2x2xf32, #stat>
  %dx = optimus.norm_grad_apply %dy, %x, %mean, %rstd, %gain, %sums residual(%res) {size = 5 : i64} : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>, tensor<2xf32, #v>, tensor<2x2xf32, #stat>, tensor<2x2xf32, #x>) -> tensor<2x2xf32, #x>
  %dgu, %dbu = optimus.norm_param_grad %dy, %x, %mean, %rstd : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>) -> (tensor<2xf32, #vu>, tensor<2xf32, #vu>)
  %dg = ccl.all_reduce %dgu {axis = "row"} : (tensor<2xf32, #vu>) -> tensor<2xf32, #v>
  %db = ccl.all_reduce %dbu {axis = "row"} : (tensor<2xf32, #vu>) -> tensor<2xf32, #v>
  return %dx, %dg, %db : tensor<2x2xf32, #x>, tensor<2xf32, #v>, tensor<2xf32, #v>
}

// A row that no axis shards may be padded all the same.
#xp = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"row"}, {}]>>
#vp = #ccl.local<[5], #optimus.sharding<@mesh, [{}]>>
func.func @whole_but_padded(%x: tensor<2x6xf32, #xp>, %gain: tensor<6xf32, #vp>, %shift: tensor<6xf32, #vp>) -> (tensor<2x6xf32, #xp>, tensor<2xf32, #r>, tensor<2xf32, #r>) {
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-05 : f64} : (tensor<2x6xf32, #xp>, tensor<6xf32, #vp>, tensor<6xf32, #vp>) -> (tensor<2x6xf32, #xp>, tensor<2xf32, #r>, tensor<2xf32, #r>)
  return %y, %mean, %rstd : tensor<2x6xf32, #xp>, tensor<2xf32, #r>, tensor<2xf32, #r>
}
