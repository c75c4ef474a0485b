// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// Attributes on functions and operations.

// expected-error @below {{C1: expected normal, zeros or ones, found uniform}}
func.func private @init_c1(tensor<4xf32> {optimus.init = #optimus.init<uniform>})

// -----

// expected-error @below {{C2: expected a standard deviation of 0 at least, finite as an f32, found -5.000000e-01}}
func.func private @init_c2(tensor<4xf32> {optimus.init = #optimus.init<normal, stddev = -0.5, stream = 3>})

// -----

// expected-error @below {{C3: expected a stream from 0 to 4294967039, found -3}}
func.func private @init_c3(tensor<4xf32> {optimus.init = #optimus.init<normal, stddev = 0.5, stream = -3>})

// -----

// expected-error @below {{C1: expected each axis once, found "row" twice}}
func.func private @sharding_c1(tensor<4x6xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"row"}]>})

// -----

// expected-error @below {{C1: expected each axis once, found "row" twice}}
func.func private @sharding_c1_unreduced(tensor<4x6xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"row"}>})

// -----

// expected-error @below {{expected optimus.binding of argument 0 to be a string, found 3 : i64}}
func.func private @binding(tensor<4xf32> {optimus.binding = 3 : i64})

// -----

// expected-error @below {{expected optimus.dims of argument 0 to be an array of one string for each dimension, found ["hidden"]}}
func.func private @dims(tensor<4x6xf32> {optimus.dims = ["hidden"]})

// -----

// expected-error @below {{expected optimus.hf_shape of argument 0 to be an array<i64> of positive extents, found [4, 6]}}
func.func private @hf_shape(tensor<4x6xf32> {optimus.hf_shape = [4, 6]})

// -----

// expected-error @below {{expected optimus.init of argument 0 to be an #optimus.init, found "zeros"}}
func.func private @init(tensor<4xf32> {optimus.init = "zeros"})

// -----

// expected-error @below {{expected optimus.param of argument 1 to be a string, found unit}}
func.func private @param(tensor<4xf32>, tensor<4xf32> {optimus.param})

// -----

// expected-error @below {{expected optimus.role of result 0 to be a string, found 0 : i64}}
func.func private @role() -> (tensor<4xf32> {optimus.role = 0})

// -----

// expected-error @below {{expected optimus.sharding of argument 0 to be an #optimus.sharding, found "row"}}
func.func private @sharding(tensor<4xf32> {optimus.sharding = "row"})

// -----

// expected-error @below {{expected optimus.sharding of argument 0 to be a sharding of the rank of 'tensor<4xf32>', found #optimus.sharding<@mesh, [{}, {}]>}}
func.func private @sharding_rank(tensor<4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>})

// -----

optimus.mesh @mesh <["row" = 2]>
// expected-error @below {{expected optimus.sharding of result 0 to be on the mesh @mesh, found #optimus.sharding<@other, [{"row"}]>}}
func.func private @sharding_mesh() -> (tensor<4xf32> {optimus.sharding = #optimus.sharding<@other, [{"row"}]>})

// -----

optimus.mesh @mesh <["row" = 2]>
// expected-error @below {{expected optimus.sharding of argument 0 to name axes of @mesh, found "col"}}
func.func private @sharding_axis(tensor<4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}], unreduced = {"col"}>})

// -----

func.func @role_of_operation(%x: tensor<4xf32>) {
  // expected-error @below {{expected "optimus.role" to be a string, found 1 : i64}}
  %0 = optimus.gelu %x {optimus.role = 1} : tensor<4xf32>
  return
}

// -----

func.func @result_roles(%x: tensor<4xf32>) {
  // expected-error @below {{expected "optimus.result_roles" to be an array of one string for each result, found ["x", "y"]}}
  %0 = optimus.gelu %x {optimus.result_roles = ["x", "y"]} : tensor<4xf32>
  return
}

// -----

func.func @shardings(%x: tensor<4xf32>) {
  // expected-error @below {{expected "optimus.shardings" to be an array of one sharding for each result, found []}}
  %0 = optimus.gelu %x {optimus.shardings = []} : tensor<4xf32>
  return
}

// -----

func.func @shardings_kind(%x: tensor<4xf32>) {
  // expected-error @below {{expected optimus.shardings[1] to be an #optimus.sharding, found "row"}}
  %0, %1 = optimus.gelu_with_slope %x {optimus.shardings = [unit, "row"]} : tensor<4xf32>
  return
}

// -----

func.func @shardings_rank(%x: tensor<4xf32>) {
  // expected-error @below {{expected optimus.shardings[0] to be a sharding of the rank of 'tensor<4xf32>', found #optimus.sharding<@mesh, []>}}
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, []>]} : tensor<4xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @shardings_axis(%x: tensor<4xf32>) {
  // expected-error @below {{expected optimus.shardings[0] to name axes of @mesh, found "depth"}}
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"depth"}]>]} : tensor<4xf32>
  return
}
