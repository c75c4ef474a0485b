// RUN: optimus-interpret %s --function own --compare-with slots --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded --compare-with mixed --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function decoded --compare-with mixed --draw 1 | FileCheck %s --check-prefix=DECODED
// RUN: optimus-opt %s --optimus-verify-partition
// RUN: not optimus-interpret %s --function beyond --draw 1 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: not optimus-interpret %s --function append_beyond --draw 1 2>&1 | FileCheck %s --check-prefix=APPEND

// Where each slot has its own pages in order, they mean nothing; in another order a
// query finds its keys where the rows were put. Slots and heads may be sharded, and
// tables with them.
// CHECK: result0: 0.0e+00 from @
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @
// CHECK: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @
// DECODED: result0: 0.0e+00 from @
// DECODED: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#c = #ccl.local<[4, 128, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#new = #ccl.local<[3, 1, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
#q = #ccl.local<[4, 1, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#p = #ccl.local<[4, 1], #optimus.sharding<@mesh, [{"row"}, {}]>>
#l = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#t = #ccl.local<[4, 3], #optimus.sharding<@mesh, [{"row"}, {}]>>
#lse = #ccl.local<[4, 2, 1], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
#part = #ccl.local<[1, 192, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}], unreduced = {"row"}>>
#slot = #ccl.local<[1, 192, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>

func.func @slots(%c: tensor<4x128x2x2xf32>, %x: tensor<4x1x2x2xf32>, %y: tensor<3x1x2x2xf32>) -> (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x128x2x2xf32>) {
  %p = arith.constant dense<[[3], [-1], [70], [127]]> : tensor<4x1xi32>
  %l = arith.constant dense<[4, 0, 71, 128]> : tensor<4xi32>
  %places = arith.constant dense<[[64], [-1], [63]]> : tensor<3x1xi32>
  %s = arith.constant dense<2> : tensor<1xi32>
  %n = arith.constant dense<65> : tensor<1xi32>
  %0 = optimus.cache_append %c, %x, %p : (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>) -> tensor<4x128x2x2xf32>
  %1 = optimus.cache_append %0, %y, %places slot(%s) : (tensor<4x128x2x2xf32>, tensor<3x1x2x2xf32>, tensor<3x1xi32>, tensor<1xi32>) -> tensor<4x128x2x2xf32>
  %o, %lse = optimus.attention %x, %1, %0 lengths(%l) positions(%p) {cached, causal, window = 80 : i64} : (tensor<4x1x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<4x2x1xf32>)
  %k = optimus.take %1, %s length(%n) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x128x2x2xf32>
  return %1, %o, %k : tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x128x2x2xf32>
}
func.func @own(%c: tensor<4x128x2x2xf32>, %x: tensor<4x1x2x2xf32>, %y: tensor<3x1x2x2xf32>) -> (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x128x2x2xf32>) {
  %p = arith.constant dense<[[3], [-1], [70], [127]]> : tensor<4x1xi32>
  %l = arith.constant dense<[4, 0, 71, 128]> : tensor<4xi32>
  %places = arith.constant dense<[[64], [-1], [63]]> : tensor<3x1xi32>
  %s = arith.constant dense<2> : tensor<1xi32>
  %n = arith.constant dense<65> : tensor<1xi32>
  %t = arith.constant dense<[[0, 1], [0, 1], [0, 1], [0, 1]]> : tensor<4x2xi32>
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<4x2xi32>) -> tensor<4x128x2x2xf32>
  %1 = optimus.cache_append %0, %y, %places slot(%s) pages(%t) : (tensor<4x128x2x2xf32>, tensor<3x1x2x2xf32>, tensor<3x1xi32>, tensor<1xi32>, tensor<4x2xi32>) -> tensor<4x128x2x2xf32>
  %o, %lse = optimus.attention %x, %1, %0 lengths(%l) positions(%p) pages(%t) {cached, causal, window = 80 : i64} : (tensor<4x1x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4xi32>, tensor<4x1xi32>, tensor<4x2xi32>) -> (tensor<4x1x2x2xf32>, tensor<4x2x1xf32>)
  %k = optimus.take %1, %s length(%n) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x2xi32>) -> tensor<1x128x2x2xf32>
  return %1, %o, %k : tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x128x2x2xf32>
}

// Of three pages at most, slot 0 has one of its own and one of slot 1's, as slot 2 has
// of 3's; slot 1 has none.
func.func @mixed(%c: tensor<4x128x2x2xf32>, %x: tensor<4x1x2x2xf32>, %y: tensor<3x1x2x2xf32>) -> (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>) {
  %p = arith.constant dense<[[3], [-1], [150], [1]]> : tensor<4x1xi32>
  %l = arith.constant dense<[4, 0, 151, 2]> : tensor<4xi32>
  %places = arith.constant dense<[[64], [-1], [63]]> : tensor<3x1xi32>
  %s = arith.constant dense<2> : tensor<1xi32>
  %n = arith.constant dense<150> : tensor<1xi32>
  %t = arith.constant dense<[[3, 0, 0], [0, 0, 0], [2, 0, 1], [1, 0, 0]]> : tensor<4x3xi32>
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<4x3xi32>) -> tensor<4x128x2x2xf32>
  %1 = optimus.cache_append %0, %y, %places slot(%s) pages(%t) : (tensor<4x128x2x2xf32>, tensor<3x1x2x2xf32>, tensor<3x1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<4x128x2x2xf32>
  %o, %lse = optimus.attention %x, %1, %1 lengths(%l) positions(%p) pages(%t) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4x128x2x2xf32>, tensor<4xi32>, tensor<4x1xi32>, tensor<4x3xi32>) -> (tensor<4x1x2x2xf32>, tensor<4x2x1xf32>)
  %k = optimus.take %1, %s length(%n) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  return %1, %o, %k : tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>
}
func.func @sharded(%c: tensor<2x128x1x2xf32, #c>, %x: tensor<2x1x1x2xf32, #q>, %y: tensor<3x1x1x2xf32, #new>) -> (tensor<2x128x1x2xf32, #c>, tensor<2x1x1x2xf32, #q>, tensor<1x192x1x2xf32, #slot>) {
  %pw = arith.constant dense<[[3], [-1], [150], [1]]> : tensor<4x1xi32>
  %lw = arith.constant dense<[4, 0, 151, 2]> : tensor<4xi32>
  %tw = arith.constant dense<[[3, 0, 0], [0, 0, 0], [2, 0, 1], [1, 0, 0]]> : tensor<4x3xi32>
  %p = ccl.slice %pw {axis = "row", dim = 0 : i64} : (tensor<4x1xi32>) -> tensor<2x1xi32, #p>
  %l = ccl.slice %lw {axis = "row", dim = 0 : i64} : (tensor<4xi32>) -> tensor<2xi32, #l>
  %t = ccl.slice %tw {axis = "row", dim = 0 : i64} : (tensor<4x3xi32>) -> tensor<2x3xi32, #t>
  %places = arith.constant dense<[[64], [-1], [63]]> : tensor<3x1xi32>
  %s = arith.constant dense<2> : tensor<1xi32>
  %n = arith.constant dense<150> : tensor<1xi32>
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<2x128x1x2xf32, #c>, tensor<2x1x1x2xf32, #q>, tensor<2x1xi32, #p>, tensor<2x3xi32, #t>) -> tensor<2x128x1x2xf32, #c>
  %1 = optimus.cache_append %0, %y, %places slot(%s) pages(%t) : (tensor<2x128x1x2xf32, #c>, tensor<3x1x1x2xf32, #new>, tensor<3x1xi32>, tensor<1xi32>, tensor<2x3xi32, #t>) -> tensor<2x128x1x2xf32, #c>
  %o, %lse = optimus.attention %x, %1, %1 lengths(%l) positions(%p) pages(%t) {cached, causal} : (tensor<2x1x1x2xf32, #q>, tensor<2x128x1x2xf32, #c>, tensor<2x128x1x2xf32, #c>, tensor<2xi32, #l>, tensor<2x1xi32, #p>, tensor<2x3xi32, #t>) -> (tensor<2x1x1x2xf32, #q>, tensor<2x1x1xf32, #lse>)
  %part = optimus.take %1, %s length(%n) pages(%t) : (tensor<2x128x1x2xf32, #c>, tensor<1xi32>, tensor<1xi32>, tensor<2x3xi32, #t>) -> tensor<1x192x1x2xf32, #part>
  %k = ccl.all_reduce %part {axis = "row"} : (tensor<1x192x1x2xf32, #part>) -> tensor<1x192x1x2xf32, #slot>
  return %1, %o, %k : tensor<2x128x1x2xf32, #c>, tensor<2x1x1x2xf32, #q>, tensor<1x192x1x2xf32, #slot>
}

// The query of slot 2, with the keys of its pages in their order.
func.func @decoded(%c: tensor<4x128x2x2xf32>, %x: tensor<4x1x2x2xf32>, %y: tensor<3x1x2x2xf32>) -> (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>) {
  %p = arith.constant dense<[[3], [-1], [150], [1]]> : tensor<4x1xi32>
  %places = arith.constant dense<[[64], [-1], [63]]> : tensor<3x1xi32>
  %t = arith.constant dense<[[3, 0, 0], [0, 0, 0], [2, 0, 1], [1, 0, 0]]> : tensor<4x3xi32>
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<4x3xi32>) -> tensor<4x128x2x2xf32>
  %s0 = arith.constant dense<0> : tensor<1xi32>
  %s1 = arith.constant dense<1> : tensor<1xi32>
  %s = arith.constant dense<2> : tensor<1xi32>
  %s3 = arith.constant dense<3> : tensor<1xi32>
  %1 = optimus.cache_append %0, %y, %places slot(%s) pages(%t) : (tensor<4x128x2x2xf32>, tensor<3x1x2x2xf32>, tensor<3x1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<4x128x2x2xf32>
  %all = arith.constant dense<192> : tensor<1xi32>
  %n = arith.constant dense<150> : tensor<1xi32>
  %k = optimus.take %1, %s length(%n) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  %k2 = optimus.take %1, %s length(%all) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  %k0 = optimus.take %1, %s0 length(%all) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  %k3 = optimus.take %1, %s3 length(%all) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  %l0 = arith.constant dense<4> : tensor<1xi32>
  %l2 = arith.constant dense<151> : tensor<1xi32>
  %l3 = arith.constant dense<2> : tensor<1xi32>
  %p0 = arith.constant dense<[[3], [-1], [-1], [-1]]> : tensor<4x1xi32>
  %p2 = arith.constant dense<[[-1], [-1], [150], [-1]]> : tensor<4x1xi32>
  %p3 = arith.constant dense<[[-1], [-1], [-1], [1]]> : tensor<4x1xi32>
  %o0, %lse0 = optimus.attention %x, %k0, %k0 lengths(%l0) positions(%p0) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<1x2x4xf32>)
  %o2, %lse2 = optimus.attention %x, %k2, %k2 lengths(%l2) positions(%p2) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<1x2x4xf32>)
  %o3, %lse3 = optimus.attention %x, %k3, %k3 lengths(%l3) positions(%p3) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1x192x2x2xf32>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<1x2x4xf32>)
  %a = optimus.add %o0, %o2 : (tensor<4x1x2x2xf32>, tensor<4x1x2x2xf32>) -> tensor<4x1x2x2xf32>
  %o = optimus.add %a, %o3 : (tensor<4x1x2x2xf32>, tensor<4x1x2x2xf32>) -> tensor<4x1x2x2xf32>
  return %1, %o, %k : tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x192x2x2xf32>
}

// BEYOND: expected entries of pages from -2 to 5, found 6 of sequence 1
func.func @beyond(%c: tensor<4x128x2x2xf32>) -> tensor<1x192x2x2xf32> {
  %s = arith.constant dense<1> : tensor<1xi32>
  %n = arith.constant dense<65> : tensor<1xi32>
  %t = arith.constant dense<[[0, 0, 0], [0, 6, 0], [0, 0, 0], [0, 0, 0]]> : tensor<4x3xi32>
  %k = optimus.take %c, %s length(%n) pages(%t) : (tensor<4x128x2x2xf32>, tensor<1xi32>, tensor<1xi32>, tensor<4x3xi32>) -> tensor<1x192x2x2xf32>
  return %k : tensor<1x192x2x2xf32>
}

// APPEND: expected entries of pages from 0 to 7, found -1 of sequence 0
func.func @append_beyond(%c: tensor<4x128x2x2xf32>, %x: tensor<4x1x2x2xf32>) -> tensor<4x128x2x2xf32> {
  %p = arith.constant dense<[[64], [-1], [-1], [-1]]> : tensor<4x1xi32>
  %t = arith.constant dense<[[0, -1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]> : tensor<4x3xi32>
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<4x128x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<4x3xi32>) -> tensor<4x128x2x2xf32>
  return %0 : tensor<4x128x2x2xf32>
}
