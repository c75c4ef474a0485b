// RUN: optimus-opt %s --optimus-shard='strategy=summa' --optimus-partition --split-input-file --verify-roundtrip --mlir-print-local-scope | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 3]>

// Forward, gradient of the left side and of the right side of one linear
// layer: three products, and each tensor stays in place in one of them. The
// number of panels is the least common multiple of the axes.
// CHECK-LABEL: func.func @weight_row_col(
// CHECK: ccl.matmul %arg0, %arg1 {panels = 6 : i64, stationary = "c"} : (tensor<6x6xf32{{.*}}>, tensor<9x8xf32{{.*}}>) -> tensor<6x8xf32
// CHECK: ccl.matmul %arg2, %arg1 {panels = 6 : i64, stationary = "a", transpose_b}
// CHECK: ccl.matmul %arg0, %arg2 {panels = 6 : i64, stationary = "b", transpose_a}
func.func @weight_row_col(%x: tensor<12x18xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
                          %w: tensor<18x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
                          %dy: tensor<12x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>})
    -> (tensor<12x24xf32>, tensor<12x18xf32>, tensor<18x24xf32>) {
  %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<12x18xf32>, tensor<18x24xf32>) -> tensor<12x24xf32>
  %dx = optimus.matmul %dy, %w {transpose_b, optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<12x24xf32>, tensor<18x24xf32>) -> tensor<12x18xf32>
  %dw = optimus.matmul %x, %dy {transpose_a, optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<12x18xf32>, tensor<12x24xf32>) -> tensor<18x24xf32>
  return %y, %dx, %dw : tensor<12x24xf32>, tensor<12x18xf32>, tensor<18x24xf32>
}

// With the weight the other way round x stays where it was the result.
// CHECK-LABEL: func.func @weight_col_row(
// CHECK: ccl.matmul {{.*}}stationary = "a"}
// CHECK: ccl.matmul {{.*}}stationary = "c", transpose_b}
// CHECK: ccl.matmul {{.*}}stationary = "a", transpose_a}
func.func @weight_col_row(%x: tensor<12x18xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
                          %w: tensor<18x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>},
                          %dy: tensor<12x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>})
    -> (tensor<12x24xf32>, tensor<12x18xf32>, tensor<18x24xf32>) {
  %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<12x18xf32>, tensor<18x24xf32>) -> tensor<12x24xf32>
  %dx = optimus.matmul %dy, %w {transpose_b, optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<12x24xf32>, tensor<18x24xf32>) -> tensor<12x18xf32>
  %dw = optimus.matmul %x, %dy {transpose_a, optimus.shardings = [#optimus.sharding<@mesh, [{"col"}, {"row"}]>]} : (tensor<12x18xf32>, tensor<12x24xf32>) -> tensor<18x24xf32>
  return %y, %dx, %dw : tensor<12x24xf32>, tensor<12x18xf32>, tensor<18x24xf32>
}

// Column-parallel, then row-parallel: local products, and one sum.
// CHECK-LABEL: func.func @one_dimensional(
// CHECK: %[[H:.*]] = optimus.matmul %arg0, %arg1 {{.*}} -> tensor<12x8xf32
// CHECK: %[[P:.*]] = optimus.matmul %[[H]], %arg2 {{.*}} -> tensor<12x18xf32, #ccl.local<[12, 18], <@mesh, [{}, {}], unreduced = {"col"}>>>
// CHECK: %[[Y:.*]] = ccl.all_reduce %[[P]] {axis = "col"} {{.*}} -> tensor<12x18xf32>
// CHECK-NOT: ccl
// CHECK: return %[[Y]]
func.func @one_dimensional(%x: tensor<12x18xf32>,
                           %up: tensor<18x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>},
                           %down: tensor<24x18xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {}]>}) -> tensor<12x18xf32> {
  %h = optimus.matmul %x, %up {optimus.shardings = [#optimus.sharding<@mesh, [{}, {"col"}]>]} : (tensor<12x18xf32>, tensor<18x24xf32>) -> tensor<12x24xf32>
  %y = optimus.matmul %h, %down {optimus.shardings = [#optimus.sharding<@mesh, [{}, {}]>]} : (tensor<12x24xf32>, tensor<24x18xf32>) -> tensor<12x18xf32>
  return %y : tensor<12x18xf32>
}

// Two indices sharded differently have no distributed form: parts are put together
// as far as a local product needs.
// CHECK-LABEL: func.func @neither(
// CHECK: %[[X:.*]] = ccl.slice %arg0 {axis = "row", dim = 0 : i64}
// CHECK: %[[W:.*]] = ccl.all_gather %arg1 {axis = "row", dim = 1 : i64}
// CHECK: %[[P:.*]] = optimus.matmul %[[X]], %[[W]]
// CHECK: ccl.all_reduce %[[P]] {axis = "col"}
func.func @neither(%x: tensor<12x18xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>},
                   %w: tensor<18x24xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {"row"}]>}) -> tensor<12x24xf32> {
  %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : (tensor<12x18xf32>, tensor<18x24xf32>) -> tensor<12x24xf32>
  return %y : tensor<12x24xf32>
}

// -----

// 64 panels are the most; on a longer axis a product's tensors move whole.
optimus.mesh @mesh <["row" = 1, "col" = 65]>
// CHECK-LABEL: func.func @long_axis(
// CHECK: %[[X:.*]] = ccl.all_gather %arg0 {axis = "col", dim = 1 : i64}
// CHECK: optimus.matmul %[[X]], %arg1
// CHECK-NOT: ccl.matmul
func.func @long_axis(%x: tensor<2x130xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
                     %w: tensor<130x65xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> tensor<2x65xf32> {
  %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<2x130xf32>, tensor<130x65xf32>) -> tensor<2x65xf32>
  return %y : tensor<2x65xf32>
}
