// RUN: optimus-interpret %s --function round --compare-with identity --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function rank_order --print | FileCheck %s --check-prefix=ORDER

// A dimension of 11 elements sharded by both axes, 12 with its padding; there and
// back. Every collective is the identity on the global value.
// CHECK: result0: 0.0e+00 from @identity
// CHECK: result1: 0.0e+00 from @identity

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#both = #ccl.local<[11, 2], #optimus.sharding<@mesh, [{"row", "col"}, {}]>>
#row = #ccl.local<[11, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#none = #ccl.local<[11, 2], #optimus.sharding<@mesh, [{}, {}]>>

func.func @identity(%x: tensor<11x2xf32>) -> (tensor<11x2xf32>, tensor<11x2xf32>) {
  return %x, %x : tensor<11x2xf32>, tensor<11x2xf32>
}
func.func @round(%x: tensor<2x2xf32, #both>) -> (tensor<2x2xf32, #both>, tensor<12x2xf32, #none>) {
  %0 = ccl.all_gather %x {axis = "col", dim = 0 : i64} : (tensor<2x2xf32, #both>) -> tensor<6x2xf32, #row>
  %1 = ccl.all_gather %0 {axis = "row", dim = 0 : i64} : (tensor<6x2xf32, #row>) -> tensor<12x2xf32, #none>
  %2 = ccl.slice %1 {axis = "row", dim = 0 : i64} : (tensor<12x2xf32, #none>) -> tensor<6x2xf32, #row>
  %3 = ccl.slice %2 {axis = "col", dim = 0 : i64} : (tensor<6x2xf32, #row>) -> tensor<2x2xf32, #both>
  return %3, %1 : tensor<2x2xf32, #both>, tensor<12x2xf32, #none>
}

// Each rank's sum of squares is a partial sum: 3² + 4² + 12² on the ranks of "col",
// and the same on both of "row".
// ORDER: result0 = 169
// ORDER: result1 = 13
#v = #ccl.local<[3], #optimus.sharding<@mesh, [{"col"}]>>
#vw = #ccl.local<[3], #optimus.sharding<@mesh, [{}]>>
#s = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"col"}>>
func.func @rank_order() -> (tensor<f32>, tensor<f32>) {
  %whole = arith.constant dense<[3.0, 4.0, 12.0]> : tensor<3xf32>
  %v = ccl.slice %whole {axis = "col", dim = 0 : i64} : (tensor<3xf32>) -> tensor<1xf32, #v>
  %part = optimus.sum_squares %v : (tensor<1xf32, #v>) -> tensor<f32, #s>
  %sum = ccl.all_reduce %part {axis = "col"} : (tensor<f32, #s>) -> tensor<f32>
  %root = optimus.sqrt %sum : tensor<f32>
  return %sum, %root : tensor<f32>, tensor<f32>
}
