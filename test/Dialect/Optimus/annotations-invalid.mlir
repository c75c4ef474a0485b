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

// expected-error @below {{A9: expected optimus.binding of argument 0 to be a name, or a kind and a name as "grad:NAME", found 3 : i64}}
func.func private @binding(tensor<4xf32> {optimus.binding = 3 : i64})

// -----

// expected-error @below {{A6: expected optimus.dims of argument 0 to be an array of one string for each dimension, found ["hidden"]}}
func.func private @dims(tensor<4x6xf32> {optimus.dims = ["hidden"]})

// -----

// expected-error @below {{A3: expected optimus.hf_shape of argument 0 to be an array<i64> of positive extents, found [4, 6]}}
func.func private @hf_shape(tensor<4x6xf32> {optimus.hf_shape = [4, 6]})

// -----

// expected-error @below {{A4: expected optimus.init of argument 0 to be an #optimus.init, found "zeros"}}
func.func private @init(tensor<4xf32> {optimus.init = "zeros"})

// -----

// expected-error @below {{A2: expected optimus.param of argument 1 to be a string, found unit}}
func.func private @param(tensor<4xf32>, tensor<4xf32> {optimus.param})

// -----

// expected-error @below {{A5: expected optimus.role of result 0 to be a string, found 0 : i64}}
func.func private @role() -> (tensor<4xf32> {optimus.role = 0})

// -----

// expected-error @below {{A7: expected optimus.sharding of argument 0 to be an #optimus.sharding, found "row"}}
func.func private @sharding(tensor<4xf32> {optimus.sharding = "row"})

// -----

// expected-error @below {{A7: expected optimus.sharding of argument 0 to be a sharding of the rank of 'tensor<4xf32>', found #optimus.sharding<@mesh, [{}, {}]>}}
func.func private @sharding_rank(tensor<4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>})

// -----

optimus.mesh @mesh <["row" = 2]>
// expected-error @below {{A7: expected optimus.sharding of result 0 to be on the mesh @mesh, found #optimus.sharding<@other, [{"row"}]>}}
func.func private @sharding_mesh() -> (tensor<4xf32> {optimus.sharding = #optimus.sharding<@other, [{"row"}]>})

// -----

optimus.mesh @mesh <["row" = 2]>
// expected-error @below {{A7: expected optimus.sharding of argument 0 to name axes of @mesh, found "col"}}
func.func private @sharding_axis(tensor<4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}], unreduced = {"col"}>})

// -----

func.func @role_of_operation(%x: tensor<4xf32>) {
  // expected-error @below {{A5: expected "optimus.role" to be a string, found 1 : i64}}
  %0 = optimus.gelu %x {optimus.role = 1} : tensor<4xf32>
  return
}

// -----

func.func @result_roles(%x: tensor<4xf32>) {
  // expected-error @below {{A5: expected "optimus.result_roles" to be an array of one string for each result, found ["x", "y"]}}
  %0 = optimus.gelu %x {optimus.result_roles = ["x", "y"]} : tensor<4xf32>
  return
}

// -----

func.func @shardings(%x: tensor<4xf32>) {
  // expected-error @below {{A7: expected "optimus.shardings" to be an array of one sharding for each result, found []}}
  %0 = optimus.gelu %x {optimus.shardings = []} : tensor<4xf32>
  return
}

// -----

func.func @shardings_kind(%x: tensor<4xf32>) {
  // expected-error @below {{A7: expected optimus.shardings[1] to be an #optimus.sharding, found "row"}}
  %0, %1 = optimus.gelu_with_slope %x {optimus.shardings = [unit, "row"]} : tensor<4xf32>
  return
}

// -----

func.func @shardings_rank(%x: tensor<4xf32>) {
  // expected-error @below {{A7: expected optimus.shardings[0] to be a sharding of the rank of 'tensor<4xf32>', found #optimus.sharding<@mesh, []>}}
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, []>]} : tensor<4xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2]>
func.func @shardings_axis(%x: tensor<4xf32>) {
  // expected-error @below {{A7: expected optimus.shardings[0] to name axes of @mesh, found "depth"}}
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"depth"}]>]} : tensor<4xf32>
  return
}

// -----

// expected-error @below {{A1: expected optimus.model to be a dictionary, found "gpt2"}}
module attributes {optimus.model = "gpt2"} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'vocabulary' from 1 to 2147483647, found none}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'batch' from 1 to 2147483647, found -1 : i64}}
module attributes {optimus.model = {batch = -1 : i64, sequence = 1 : i64, vocabulary = 1 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'sequence' from 1 to 2147483647, found 2147483648 : i64}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 2147483648 : i64, vocabulary = 1 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have the 'objective' "next_token" or "masked_token", found "next_word"}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 1 : i64, objective = "next_word"}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'mask_token' from 0 to 7, found 8 : i64}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, objective = "masked_token", mask_token = 8 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'pad_token' from 0 to 7, found "none"}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, pad_token = "none"}} {
}

// -----

// expected-error @below {{A2: expected optimus.param of argument 0 to be a name of 1 to 255 bytes of UTF-8, without control characters and colons, found "a:b"}}
func.func private @param_colon(tensor<4xf32> {optimus.param = "a:b"})

// -----

// expected-error @below {{A2: expected optimus.param of argument 0 to be a name of 1 to 255 bytes of UTF-8, without control characters and colons, found "a\0Ab"}}
func.func private @param_control(tensor<4xf32> {optimus.param = "a\nb"})

// -----

// expected-error @below {{A2: expected optimus.param of argument 0 to be a name of 1 to 255 bytes of UTF-8, without control characters and colons, found "\FF"}}
func.func private @param_utf8(tensor<4xf32> {optimus.param = "\FF"})

// -----

// expected-error @below {{A2: expected optimus.param of argument 0 to be another name: safetensors files keep this one for themselves, found "__metadata__"}}
func.func private @param_metadata(tensor<4xf32> {optimus.param = "__metadata__"})

// -----

// expected-error @below {{A2: expected optimus.param of argument 0 to be another name: checkpoints give it to what an optimizer keeps, found "exp_avg.wte.weight"}}
func.func private @param_state(tensor<4xf32> {optimus.param = "exp_avg.wte.weight"})

// -----

// expected-error @below {{A3: expected optimus.hf_shape of argument 0 to be a shape of as many elements as tensor<4x6xf32>, found array<i64: 5, 5>}}
func.func private @hf_shape_elements(tensor<4x6xf32> {optimus.hf_shape = array<i64: 5, 5>})

// -----

// As a product of 64-bit numbers, 4 elements.
// expected-error @below {{A3: expected optimus.hf_shape of argument 0 to be a shape of as many elements as tensor<4xf32>}}
func.func private @hf_shape_overflow(tensor<4xf32> {optimus.hf_shape = array<i64: 4611686018427387905, 4>})

// -----

// expected-error @below {{A6: expected optimus.dims of argument 0 to be names of 1 to 255 bytes of UTF-8 without control characters, found [""]}}
func.func private @dims_empty(tensor<4xf32> {optimus.dims = [""]})

// -----

// expected-error @below {{A8: expected optimus.donates of argument 0 to be the number of a result, an i64 below 1, found 1 : i64}}
func.func private @donates(tensor<4xf32> {optimus.donates = 1 : i64}) -> tensor<4xf32>

// -----

// expected-error @below {{A9: expected optimus.binding of argument 0 to be a name, or a kind and a name as "grad:NAME", found "scalar:"}}
func.func private @binding_name(tensor<f32> {optimus.binding = "scalar:"})

// -----

func.func @move(%x: tensor<4xf32>) {
  // expected-error @below {{A10: expected "optimus.move" to be "panels" or "whole", on an optimus.matmul, found "panels"}}
  %0 = optimus.gelu %x {optimus.move = "panels"} : tensor<4xf32>
  return
}

// -----

// expected-error @below {{A12: unknown attribute optimus.rol of argument 0; did you mean 'optimus.role'?}}
func.func private @unknown(tensor<4xf32> {optimus.rol = "norm.gain"})

// -----

func.func @unknown_of_operation(%x: tensor<4xf32>) {
  // expected-error @below {{A12: unknown attribute optimus.frobnicate}}
  %0 = optimus.gelu %x {optimus.frobnicate} : tensor<4xf32>
  return
}

// -----

// expected-error @below {{A11: expected "optimus.compilation" to be a dictionary of strings, found {mesh = 2 : i64}}}
module attributes {optimus.compilation = {mesh = 2 : i64}} {
}

// -----

// expected-error @below {{A12: unknown attribute optimus.modle; did you mean 'optimus.model'?}}
module attributes {optimus.modle = {}} {
}

// -----

func.func @recomputed(%x: tensor<4xf32>) {
  // expected-error @below {{A12: expected "optimus.recomputed" to be without a value, found true}}
  %0 = optimus.gelu %x {optimus.recomputed = true} : tensor<4xf32>
  return
}
