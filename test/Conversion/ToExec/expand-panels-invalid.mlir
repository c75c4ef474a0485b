// RUN: optimus-opt %s --optimus-to-exec --verify-diagnostics

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

func.func @uneven(%x: tensor<4x6xf32, #x>, %w: tensor<6x3xf32, #w>) -> tensor<4x3xf32, #y> {
  // expected-error @below {{C3: expected a number of panels that divides 12, the padded extent of K, found 8}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 8 : i64} : (tensor<4x6xf32, #x>, tensor<6x3xf32, #w>) -> tensor<4x3xf32, #y>
  return %0 : tensor<4x3xf32, #y>
}
