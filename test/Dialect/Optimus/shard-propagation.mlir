// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --verify-roundtrip | FileCheck %s

// What is decided spreads both ways along factors that are not contracted, until
// nothing more follows: from the last value back to the first, and from there to
// what else is made of it.
// CHECK-LABEL: func.func @back_and_forth(
// CHECK-SAME: %arg0: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {}]>}
// CHECK: optimus.gelu {{.*}}[#optimus.sharding<@mesh, [{"col"}, {}]>]
// CHECK: optimus.mul {{.*}}[#optimus.sharding<@mesh, [{"col"}, {}]>]
// CHECK: optimus.add {{.*}}[#optimus.sharding<@mesh, [{"col"}, {"row"}]>]
func.func @back_and_forth(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = optimus.gelu %x : tensor<4x8xf32>
  %1 = optimus.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = optimus.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = optimus.add %2, %2 {optimus.shardings = [#optimus.sharding<@mesh, [{"col"}, {"row"}]>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xf32>
}

// What a product contracts follows from neither side.
// CHECK-LABEL: func.func @contracted(
// CHECK-SAME: %arg0: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>}
// CHECK-SAME: %arg1: tensor<8x6xf32> {optimus.role = "first in.hidden,out.ffn", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}
func.func @contracted(%x: tensor<4x8xf32>, %w: tensor<8x6xf32> {optimus.role = "first in.hidden,out.ffn"}) -> tensor<4x6xf32> {
  %0 = optimus.matmul %x, %w {optimus.role = "batch,ffn"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// An axis shards one dimension of a value: the first that it would.
// CHECK-LABEL: func.func @taken(
// CHECK: optimus.matmul {{.*}}[#optimus.sharding<@mesh, [{"row"}, {}]>]
func.func @taken(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>},
                 %w: tensor<8x6xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {"row"}]>}) -> tensor<4x6xf32> {
  %0 = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Of a shard of shards each rank has its part already.
// CHECK-LABEL: func.func @finer(
// CHECK: optimus.add {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row", "col"}, {}]>]
// CHECK: optimus.add {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row", "col"}, {}]>]
func.func @finer(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>},
                 %y: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row", "col"}, {}]>}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = optimus.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = optimus.add %y, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// An annotation holds, whatever is around it.
// CHECK-LABEL: func.func @annotated(
// CHECK: optimus.gelu {{.*}}[#optimus.sharding<@mesh, [{}, {"row"}]>]
func.func @annotated(%x: tensor<4x8xf32> {optimus.role = "batch,hidden"}) -> tensor<4x8xf32> {
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{}, {"row"}]>]} : tensor<4x8xf32>
  %1 = optimus.gelu %0 {optimus.role = "batch,hidden"} : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// So does what belongs to a parameter that is annotated: its gradient.
// CHECK-LABEL: func.func @gradient(
// CHECK: optimus.matmul {{.*}}[#optimus.sharding<@mesh, [{}, {"col"}]>]
func.func @gradient(%w: tensor<8x6xf32> {optimus.param = "w", optimus.role = "first in.hidden,out.ffn of w", optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>},
                    %x: tensor<4x8xf32> {optimus.role = "batch,hidden"}, %dy: tensor<4x6xf32> {optimus.role = "batch,ffn"}) -> tensor<8x6xf32> {
  %0 = optimus.matmul %x, %dy {transpose_a, optimus.role = "first in.hidden,out.ffn of w"} : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
