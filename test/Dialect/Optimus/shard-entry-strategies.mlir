// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa entry-strategies="decode=stationary"' --verify-roundtrip | FileCheck %s
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=megatron entry-strategies="decode=stationary"' 2>&1 | FileCheck %s --check-prefix=BASE

// BASE: error: strategy 'stationary' of decode leaves parameters where 'summa' has them; found strategy 'megatron' for the program
// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:2 strategy=megatron-sp' | FileCheck %s --check-prefix=SP

// A sequence of one token is whole with sequence parallelism, too.
// SP: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {}]>

// Activations of a decode have its strategy: the input of a product is sharded as the
// contracted dimension of the weight, and what it makes as the other one.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {"row"}]>
// CHECK-SAME: optimus.role = "first in.hidden,out.ffn of w", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>
// CHECK: optimus.matmul {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>]
func.func @decode(%x: tensor<4x1x16xf32> {optimus.role = "batch,sequence,hidden"}, %w: tensor<16x8xf32> {optimus.role = "first in.hidden,out.ffn of w"})
    -> tensor<4x1x8xf32> attributes {optimus.entry = #optimus.entry<decode, batch = 4, sequence = 1>} {
  %0 = optimus.matmul %x, %w {optimus.role = "batch,sequence,ffn"} : (tensor<4x1x16xf32>, tensor<16x8xf32>) -> tensor<4x1x8xf32>
  return %0 : tensor<4x1x8xf32>
}

// Others have the program's. Tables and vectors lie alike for all.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
// CHECK-SAME: optimus.role = "vector hidden of g", optimus.sharding = #optimus.sharding<@mesh, [{}]>
// CHECK-SAME: optimus.role = "table vocabulary,hidden of t", optimus.sharding = #optimus.sharding<@mesh, [{"col", "row"}, {}]>
func.func @prefill(%x: tensor<4x1x16xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<16xf32> {optimus.role = "vector hidden of g"}, %t: tensor<32x16xf32> {optimus.role = "table vocabulary,hidden of t"})
    -> tensor<4x1x16xf32> attributes {optimus.entry = #optimus.entry<prefill, batch = 4, sequence = 1>} {
  return %x : tensor<4x1x16xf32>
}
