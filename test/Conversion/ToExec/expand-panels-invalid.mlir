// RUN: optimus-opt %s --split-input-file --optimus-to-exec --verify-diagnostics

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

func.func @uneven(%x: tensor<4x6xf32, #x>, %w: tensor<6x3xf32, #w>) -> tensor<4x3xf32, #y> {
  // expected-error @below {{C3: expected a number of panels that divides 12, the padded extent of K, found 8}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 8 : i64} : (tensor<4x6xf32, #x>, tensor<6x3xf32, #w>) -> tensor<4x3xf32, #y>
  return %0 : tensor<4x3xf32, #y>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

func.func @no_sum_of_products(%x: tensor<4x6xf32, #x>, %w: tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x> {
  %p = ccl.matmul %x, %w {ccl.group = 0, stationary = "a", panels = 2 : i64, transpose_b} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  // expected-error @below {{is in a group of products, but is not a sum of neighbours in it}}
  %sum = optimus.add %p, %x {ccl.group = 0} : (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) -> tensor<4x6xf32, #x>
  return %sum : tensor<4x6xf32, #x>
}

// -----

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

func.func @different_panels(%x: tensor<4x6xf32, #x>, %w: tensor<6x6xf32, #w>) -> (tensor<4x6xf32, #x>, tensor<4x6xf32, #x>) {
  %p = ccl.matmul %x, %w {ccl.group = 0, stationary = "c", panels = 2 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  // expected-error @below {{has 6 panels, the first product of its group 2}}
  %q = ccl.matmul %x, %w {ccl.group = 0, stationary = "c", panels = 6 : i64} : (tensor<4x6xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x6xf32, #x>
  return %p, %q : tensor<4x6xf32, #x>, tensor<4x6xf32, #x>
}
