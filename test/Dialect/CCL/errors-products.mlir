// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each product, in alphabetical order.

#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_mesh(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{expected a mesh in the module, found none}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c1(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C1: expected stationary "a", "b" or "c", found "d"}}
  %0 = ccl.matmul %x, %w {stationary = "d", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[12, 12], #optimus.sharding<@mesh, [{"row", "col"}, {}]>>
func.func @matmul_c2(%x: tensor<2x12xf32, #x>, %w: tensor<12x6xf32>) {
  // expected-error @below {{C2: expected each group of dimensions to be sharded by one axis at most beyond those that shard it alike}}
  %0 = ccl.matmul %x, %w {stationary = "b", panels = 6 : i64} : (tensor<2x12xf32, #x>, tensor<12x6xf32>) -> tensor<12x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 6, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
#w = #ccl.local<[6, 6, 6], #optimus.sharding<@mesh, [{}, {"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c2_streamed(%x: tensor<4x2x6xf32, #x>, %w: tensor<6x3x2xf32, #w>) {
  // expected-error @below {{beyond those that shard it alike in both tensors, along one dimension}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64, contracting = 2 : i64} : (tensor<4x2x6xf32, #x>, tensor<6x3x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c3(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C3: expected a number of panels that divides 2, what each of 6 blocks has of K, or a multiple of 6, found 3}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 3 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c3_most(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C3: expected at most 64 panels, found 66}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 66 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c3_divides(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C3: expected a number of panels that divides 12, the padded extent of K, found 18}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 18 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c3_positive(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{attribute 'panels' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 0 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[11, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c4(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C4: expected equal extents of K in a and b, found 12 padded to 12 and 11 padded to 12}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c4_padding(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C4: expected equal extents of N in b and c, found 6 padded to 6 and 6 padded to 9}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x3xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c4_ranks(%x: tensor<4x4xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C4: expected ranks that agree with 2 contracted dimensions}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64, contracting = 2 : i64} : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c5(%x: tensor<4x4xf32, #x>, %w: tensor<6x6xf32, #w>) {
  // expected-error @below {{C5: expected N to be sharded alike in b and in c, which stays}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x6xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 3, 3], #optimus.sharding<@mesh, [{"row"}, {"col"}, {}]>>
#y = #ccl.local<[8, 3, 3], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>>
func.func @matmul_c2_position(%x: tensor<4x4xf32, #x>, %w: tensor<6x1x3xf32, #w>) {
  // expected-error @below {{C2: expected each group of dimensions}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<6x1x3xf32, #w>) -> tensor<4x3x1xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c6(%x: tensor<4x12xf32, #x>, %w: tensor<6x2xf32, #w>) {
  // expected-error @below {{C6: expected a without partial sums}}
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<4x12xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @matmul_c6_moves(%x: tensor<4x12xf32, #x>, %w: tensor<12x6xf32>) {
  // expected-error @below {{C6: expected c to be reduced to its owners or unreduced over {}, which shard the contracted index}}
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64} : (tensor<4x12xf32, #x>, tensor<12x6xf32>) -> tensor<4x2xf32, #y>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @matmul_c6_unreduced(%x: tensor<4x4xf32, #x>, %w: tensor<4x3xf32, #w>) {
  // expected-error @below {{C6: expected c to be reduced to its owners or unreduced over {col}, which shard the contracted index}}
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64} : (tensor<4x4xf32, #x>, tensor<4x3xf32, #w>) -> tensor<4x6xf32, #y>
  return
}
