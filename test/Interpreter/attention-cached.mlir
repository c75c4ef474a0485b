// RUN: optimus-interpret %s --function cached --compare-with whole --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded --compare-with cached --draw 1 | FileCheck %s
// RUN: optimus-opt %s --optimus-verify-partition
// RUN: not optimus-interpret %s --function beyond --draw 1 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: not optimus-interpret %s --function too_long --draw 1 2>&1 | FileCheck %s --check-prefix=LONG

// A cache that is as full as the sequence is long means what attention does. Its
// slots and heads may be sharded.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#q = #ccl.local<[3, 4, 2, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}, {}]>>
#kv = #ccl.local<[3, 4, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#l = #ccl.local<[3], #optimus.sharding<@mesh, [{"row"}]>>
#p = #ccl.local<[3, 4], #optimus.sharding<@mesh, [{"row"}, {}]>>
#lse = #ccl.local<[3, 2, 2, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}, {}]>>

func.func @whole(%q: tensor<3x4x2x2x2xf32>, %k: tensor<3x4x2x2xf32>, %v: tensor<3x4x2x2xf32>) -> (tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>) {
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<3x4x2x2x2xf32>, tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> (tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>)
  return %y, %lse : tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>
}
func.func @cached(%q: tensor<3x4x2x2x2xf32>, %k: tensor<3x4x2x2xf32>, %v: tensor<3x4x2x2xf32>) -> (tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>) {
  %l = arith.constant dense<4> : tensor<3xi32>
  %p = arith.constant dense<[[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]> : tensor<3x4xi32>
  %y, %lse = optimus.attention %q, %k, %v lengths(%l) positions(%p) {cached, causal} : (tensor<3x4x2x2x2xf32>, tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>, tensor<3xi32>, tensor<3x4xi32>) -> (tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>)
  return %y, %lse : tensor<3x4x2x2x2xf32>, tensor<3x2x2x4xf32>
}
func.func @sharded(%q: tensor<2x4x1x2x2xf32, #q>, %k: tensor<2x4x1x2xf32, #kv>, %v: tensor<2x4x1x2xf32, #kv>) -> (tensor<2x4x1x2x2xf32, #q>, tensor<2x1x2x4xf32, #lse>) {
  %l = arith.constant dense<4> : tensor<2xi32, #l>
  %p = arith.constant dense<[[0, 1, 2, 3], [0, 1, 2, 3]]> : tensor<2x4xi32, #p>
  %y, %lse = optimus.attention %q, %k, %v lengths(%l) positions(%p) {cached, causal} : (tensor<2x4x1x2x2xf32, #q>, tensor<2x4x1x2xf32, #kv>, tensor<2x4x1x2xf32, #kv>, tensor<2xi32, #l>, tensor<2x4xi32, #p>) -> (tensor<2x4x1x2x2xf32, #q>, tensor<2x1x2x4xf32, #lse>)
  return %y, %lse : tensor<2x4x1x2x2xf32, #q>, tensor<2x1x2x4xf32, #lse>
}

// BEYOND: expected positions below the capacity of 4, found 4 of token 0 of sequence 1
func.func @beyond(%q: tensor<2x1x2x2xf32>, %k: tensor<2x4x2x2xf32>) -> tensor<2x1x2x2xf32> {
  %l = arith.constant dense<4> : tensor<2xi32>
  %p = arith.constant dense<[[3], [4]]> : tensor<2x1xi32>
  %y, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x2xf32>, tensor<2x2x1xf32>)
  return %y : tensor<2x1x2x2xf32>
}

// LONG: expected lengths from 0 to 4, found 5 of sequence 1
func.func @too_long(%q: tensor<2x1x2x2xf32>, %k: tensor<2x4x2x2xf32>) -> tensor<2x1x2x2xf32> {
  %l = arith.constant dense<[0, 5]> : tensor<2xi32>
  %p = arith.constant dense<[[-1], [3]]> : tensor<2x1xi32>
  %y, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x2xf32>, tensor<2x4x2x2xf32>, tensor<2x4x2x2xf32>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x2xf32>, tensor<2x2x1xf32>)
  return %y : tensor<2x1x2x2xf32>
}
