// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded_grad --compare-with serial_grad --draw 1 | FileCheck %s --check-prefixes=CHECK,GRAD
// RUN: optimus-opt %s --optimus-verify-partition

// Three groups of two heads of queries on ranks of two groups each, one of them
// padding, and then each group's heads of queries on two ranks: the
// gradients of the keys and values that they share are partial sums.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// GRAD: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial_grad

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#q = #ccl.local<[1, 3, 3, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"row"}, {"col"}, {}]>>
#kv = #ccl.local<[1, 3, 3, 2], #optimus.sharding<@mesh, [{}, {}, {"row"}, {}]>>
#dkv = #ccl.local<[1, 3, 3, 2], #optimus.sharding<@mesh, [{}, {}, {"row"}, {}], unreduced = {"col"}>>
#lse = #ccl.local<[1, 3, 2, 3], #optimus.sharding<@mesh, [{}, {"row"}, {"col"}, {}]>>

func.func @serial(%q: tensor<1x3x3x2x2xf32>, %k: tensor<1x3x3x2xf32>, %v: tensor<1x3x3x2xf32>) -> (tensor<1x3x3x2x2xf32>, tensor<1x3x2x3xf32>) {
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> (tensor<1x3x3x2x2xf32>, tensor<1x3x2x3xf32>)
  return %y, %lse : tensor<1x3x3x2x2xf32>, tensor<1x3x2x3xf32>
}
func.func @sharded(%q: tensor<1x3x2x1x2xf32, #q>, %k: tensor<1x3x2x2xf32, #kv>, %v: tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>) {
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>)
  return %y, %lse : tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>
}

func.func @serial_grad(%dy: tensor<1x3x3x2x2xf32>, %q: tensor<1x3x3x2x2xf32>, %k: tensor<1x3x3x2xf32>, %v: tensor<1x3x3x2xf32>) -> (tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) {
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> (tensor<1x3x3x2x2xf32>, tensor<1x3x2x3xf32>)
  %dq, %dk, %dv = optimus.attention_grad %dy, %y, %lse, %q, %k, %v {causal} : (tensor<1x3x3x2x2xf32>, tensor<1x3x3x2x2xf32>, tensor<1x3x2x3xf32>, tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> (tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>)
  return %dq, %dk, %dv : tensor<1x3x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>
}
func.func @sharded_grad(%dy: tensor<1x3x2x1x2xf32, #q>, %q: tensor<1x3x2x1x2xf32, #q>, %k: tensor<1x3x2x2xf32, #kv>, %v: tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>) {
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>)
  %dq, %dku, %dvu = optimus.attention_grad %dy, %y, %lse, %q, %k, %v {causal} : (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>, tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #dkv>, tensor<1x3x2x2xf32, #dkv>)
  %dk = ccl.all_reduce %dku {axis = "col"} : (tensor<1x3x2x2xf32, #dkv>) -> tensor<1x3x2x2xf32, #kv>
  %dv = ccl.all_reduce %dvu {axis = "col"} : (tensor<1x3x2x2xf32, #dkv>) -> tensor<1x3x2x2xf32, #kv>
  return %dq, %dk, %dv : tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>
}
