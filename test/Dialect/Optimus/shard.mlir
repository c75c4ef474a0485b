// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=megatron' | FileCheck %s --check-prefix=MEGATRON
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa-paper' | FileCheck %s --check-prefix=PAPER
// RUN: optimus-opt %s --optimus-shard='mesh=row:4,col:1 strategy=summa' | FileCheck %s --check-prefix=ROWS
// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:1 strategy=serial' | FileCheck %s --check-prefix=SERIAL
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa layouts="h.*.c_*.weight=-,row;h.?.mlp.c_fc.weight=col,row"' | FileCheck %s --check-prefix=CHOSEN

// CHECK: optimus.mesh @mesh <["row" = 2, "col" = 2]>
// SERIAL-LABEL: func.func @roles(
// SERIAL-NOT: {"row"}
// SERIAL-NOT: {"col"}
// SERIAL-LABEL: func.func @given(

// A role has the sharding of the strategy's rules. What has none follows its operands along
// factors that are not contracted: the product has the rows of x and the
// columns of w.
// CHECK-LABEL: func.func @roles(
// CHECK-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
// CHECK-SAME: optimus.role = "first in.hidden,out.ffn of h.0.mlp.c_fc.weight", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>
// CHECK-SAME: -> (tensor<4x8x4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>})
// CHECK: optimus.gelu {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>]
// CHECK: optimus.matmul {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>]
// MEGATRON-LABEL: func.func @roles(
// MEGATRON-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {}]>
// MEGATRON-SAME: optimus.role = "first in.hidden,out.ffn of h.0.mlp.c_fc.weight", optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>
// What is chosen for a path wins over the rules, the last that matches.
// CHOSEN-LABEL: func.func @roles(
// CHOSEN-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
// CHOSEN-SAME: optimus.role = "first in.hidden,out.ffn of h.0.mlp.c_fc.weight", optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>
// An axis of one rank shards nothing.
// ROWS-LABEL: func.func @roles(
// ROWS-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {}]>
// ROWS-SAME: optimus.role = "first in.hidden,out.ffn of h.0.mlp.c_fc.weight", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>
func.func @roles(%x: tensor<4x8x16xf32> {optimus.role = "batch,sequence,hidden"}, %w: tensor<16x4xf32> {optimus.role = "first in.hidden,out.ffn of h.0.mlp.c_fc.weight"})
    -> tensor<4x8x4xf32> {
  %0 = optimus.gelu %x : tensor<4x8x16xf32>
  %1 = optimus.matmul %0, %w : (tensor<4x8x16xf32>, tensor<16x4xf32>) -> tensor<4x8x4xf32>
  return %1 : tensor<4x8x4xf32>
}

// Every result of an operation has a sharding: the mean has the rows of x, and
// lse the heads of qkv.
// CHECK-LABEL: func.func @results
// CHECK: optimus.layer_norm {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>, #optimus.sharding<@mesh, [{"row"}, {}]>, #optimus.sharding<@mesh, [{"row"}, {}]>]
// CHECK: optimus.attention {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>, #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>]
func.func @results(%x: tensor<4x8x16xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<16xf32> {optimus.role = "vector hidden"},
                   %qkv: tensor<4x8x3x2x8xf32> {optimus.role = "batch,sequence,-,heads,-"}) -> (tensor<4x8x16xf32>, tensor<4x8x2x8xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<4x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<4x8x16xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
  %o, %l = optimus.attention %qkv {causal} : (tensor<4x8x3x2x8xf32>) -> (tensor<4x8x2x8xf32>, tensor<4x2x8xf32>)
  return %y, %o : tensor<4x8x16xf32>, tensor<4x8x2x8xf32>
}

// An annotation wins over the role.
// CHECK-LABEL: func.func @given(
// CHECK-SAME: optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {"row", "col"}]>
// CHECK: optimus.gelu {{.*}}optimus.shardings = [#optimus.sharding<@mesh, [{"col"}, {}, {}]>]
// ROWS-LABEL: func.func @given(
// ROWS-SAME: optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {"row"}]>
func.func @given(%x: tensor<4x8x16xf32> {optimus.role = "batch,sequence,hidden", optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {"row", "col"}]>}) -> tensor<4x8x16xf32> {
  %0 = optimus.gelu %x {optimus.role = "batch,sequence,hidden", optimus.shardings = [#optimus.sharding<@mesh, [{"col"}, {}, {}]>]} : tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// Tokens and targets are known by their bindings, or as the only integers. A
// gradient lies where its parameter does, whatever the operation says.
// CHECK-LABEL: func.func @bindings(
// CHECK-SAME: optimus.role = "table vocabulary,hidden", optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>
// CHECK-SAME: %arg1: tensor<4x8xi32> {optimus.binding = "tokens", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>}
// CHECK-SAME: %arg2: tensor<4x8xi32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>}
// CHECK-SAME: -> (tensor<6x16xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>, optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>})
func.func @bindings(%w: tensor<6x16xf32> {optimus.param = "w", optimus.role = "table vocabulary,hidden"},
                    %tokens: tensor<4x8xi32> {optimus.binding = "tokens"}, %targets: tensor<4x8xi32>)
    -> (tensor<6x16xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>}) {
  %0 = optimus.gelu %w {optimus.shardings = [#optimus.sharding<@mesh, [{}, {}]>]} : tensor<6x16xf32>
  return %0 : tensor<6x16xf32>
}

// CHECK-LABEL: func.func @down_projection(
// CHECK-SAME: optimus.role = "second in.ffn,out.hidden of h.0.mlp.c_proj.weight", optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>
// CHECK-SAME: optimus.role = "batch,sequence,ffn", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
// PAPER-LABEL: func.func @down_projection(
// PAPER-SAME: optimus.role = "second in.ffn,out.hidden of h.0.mlp.c_proj.weight", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>
// PAPER-SAME: optimus.role = "batch,sequence,ffn", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
// CHOSEN-LABEL: func.func @down_projection(
// CHOSEN-SAME: optimus.role = "second in.ffn,out.hidden of h.0.mlp.c_proj.weight", optimus.sharding = #optimus.sharding<@mesh, [{}, {"row"}]>
func.func @down_projection(%w: tensor<16x4xf32> {optimus.role = "second in.ffn,out.hidden of h.0.mlp.c_proj.weight"}, %x: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}) -> tensor<4x8x4xf32> {
  %0 = optimus.matmul %x, %w {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x4xf32>) -> tensor<4x8x4xf32>
  return %0 : tensor<4x8x4xf32>
}
