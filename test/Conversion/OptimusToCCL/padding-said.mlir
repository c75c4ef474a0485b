// RUN: optimus-opt %s -split-input-file --optimus-partition -verify-diagnostics -o %t

// One warning for all, with the cost; each size once, however many values have it.
// expected-warning @below {{this mesh pads "batch" from 1 to 8 (8.00 times) for row, "heads" from 3 to 4 (1.33 times) for col: so many times as much is computed, kept and moved of it; choose sizes that the axes divide, or other axes}}
module {
optimus.mesh @mesh <["row" = 8, "col" = 4]>
func.func @f(%x: tensor<1x3xf32> {optimus.dims = ["batch", "heads"], optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
    %y: tensor<1x3xf32> {optimus.dims = ["batch", "heads"], optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> (tensor<1x3xf32>, tensor<1x3xf32>) {
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : tensor<1x3xf32>
  %1 = optimus.gelu %y {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : tensor<1x3xf32>
  return %0, %1 : tensor<1x3xf32>, tensor<1x3xf32>
}
}

// -----

// A twelfth is nothing to speak of.
module {
optimus.mesh @mesh <["row" = 4]>
func.func @f(%x: tensor<11x3xf32> {optimus.dims = ["batch", "heads"], optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>}) -> tensor<11x3xf32> {
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : tensor<11x3xf32>
  return %0 : tensor<11x3xf32>
}
}
