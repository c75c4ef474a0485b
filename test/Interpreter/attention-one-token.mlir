// RUN: optimus-interpret %s --function sharded --compare-with chunk --draw 1 | FileCheck %s
// RUN: optimus-opt %s --optimus-verify-partition

// A rank has one token of a chunk that sees the cache of a slot: all ranks see that
// slot, as where they have several.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#q = #ccl.local<[2, 1, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#kv = #ccl.local<[1, 4, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
#p = #ccl.local<[2, 1], #optimus.sharding<@mesh, [{"row"}, {}]>>
#lse = #ccl.local<[1, 2, 2], #optimus.sharding<@mesh, [{}, {"col"}, {"row"}]>>

func.func @chunk(%q: tensor<2x1x2x2xf32>, %k: tensor<1x4x2x2xf32>, %v: tensor<1x4x2x2xf32>) -> tensor<2x1x2x2xf32> {
  %l = arith.constant dense<3> : tensor<1xi32>
  %p = arith.constant dense<2> : tensor<2x1xi32>
  %y, %lse = optimus.attention %q, %k, %v lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x2xf32>, tensor<1x2x2xf32>)
  return %y : tensor<2x1x2x2xf32>
}
func.func @sharded(%q: tensor<1x1x1x2xf32, #q>, %k: tensor<1x4x1x2xf32, #kv>, %v: tensor<1x4x1x2xf32, #kv>) -> tensor<1x1x1x2xf32, #q> {
  %l = arith.constant dense<3> : tensor<1xi32>
  %p = arith.constant dense<2> : tensor<1x1xi32, #p>
  %y, %lse = optimus.attention %q, %k, %v lengths(%l) positions(%p) {cached, causal} : (tensor<1x1x1x2xf32, #q>, tensor<1x4x1x2xf32, #kv>, tensor<1x4x1x2xf32, #kv>, tensor<1xi32>, tensor<1x1xi32, #p>) -> (tensor<1x1x1x2xf32, #q>, tensor<1x1x1xf32, #lse>)
  return %y : tensor<1x1x1x2xf32, #q>
}
