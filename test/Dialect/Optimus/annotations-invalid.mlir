// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// Attributes on functions and operations.

// expected-error @below {{C1: expected normal, uniform, zeros, ones or constant, found triangular}}
func.func private @init_c1(tensor<4xf32> {optimus.init = #optimus.init<triangular>})

// -----

// expected-error @below {{C2: expected a standard deviation of 0 at least, finite as an f32, found -5.000000e-01}}
func.func private @init_c2(tensor<4xf32> {optimus.init = #optimus.init<normal, stddev = -0.5, stream = 3>})

// -----

// expected-error @below {{C2: expected a constant that is finite as an f32, found 1.000000e+39}}
func.func private @init_c2_constant(tensor<4xf32> {optimus.init = #optimus.init<constant, value = 1.0e39>})

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

// expected-error @below {{A9: expected optimus.binding of argument 0 to be an #optimus.buffer, or of the input of a builder's program "tokens", "targets" or "random", found 3 : i64}}
func.func private @binding(tensor<4xf32> {optimus.binding = 3 : i64})

// -----

// expected-error @below {{A9: expected optimus.binding of result 0 to be an #optimus.buffer that the program fills, found "tokens"}}
func.func private @binding_of_result() -> (tensor<4xi32> {optimus.binding = "tokens"})

// -----

// expected-error @below {{A9: expected optimus.binding of result 0 to be an #optimus.buffer that the program fills, found #optimus.buffer<role = "lr", lifetime = call, filled_by = host>}}
func.func private @filled_result() -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = call, filled_by = host>})

// -----

// expected-error @below {{C1: expected a role and a parameter named by 1 to 255 bytes of UTF-8, without control characters and colons, found "a:b" of ""}}
func.func private @buffer_c1(tensor<f32> {optimus.binding = #optimus.buffer<role = "a:b", lifetime = call>})

// -----

// expected-error @below {{C1: expected a role and a parameter named by 1 to 255 bytes of UTF-8, without control characters and colons, found "grad" of ""}}
func.func private @buffer_c1_of(tensor<f32> {optimus.binding = #optimus.buffer<role = "grad", of = "", lifetime = call>})

// -----

// expected-error @below {{C2: expected the lifetime parameter exactly of what has the role "parameter", and is `of` itself; found the lifetime state of the role "parameter"}}
func.func private @buffer_c2(tensor<f32> {optimus.binding = #optimus.buffer<role = "parameter", of = "w", lifetime = state>})

// -----

// expected-error @below {{C2: expected the lifetime parameter exactly of what has the role "parameter", and is `of` itself; found the lifetime parameter of the role "parameter"}}
func.func private @buffer_c2_of(tensor<f32> {optimus.binding = #optimus.buffer<role = "parameter", lifetime = parameter>})

// -----

// expected-error @below {{C3: expected a buffer that lives as long as a sequence to have the reset step or sequence, found never}}
func.func private @buffer_c3(tensor<f32> {optimus.binding = #optimus.buffer<role = "cache", lifetime = sequence, init = <zeros>>})

// -----

// expected-error @below {{C3: expected a buffer that lives as long as a call to have the reset never or call, found step}}
func.func private @buffer_c3_call(tensor<f32> {optimus.binding = #optimus.buffer<role = "sum", lifetime = call, init = <zeros>, reset = step>})

// -----

// expected-error @below {{C4: expected a buffer that is reset to have an initial value, zeros, ones or a constant}}
func.func private @buffer_c4(tensor<f32> {optimus.binding = #optimus.buffer<role = "cache", lifetime = sequence, reset = sequence>})

// -----

// expected-error @below {{C4: expected a buffer that is reset to have an initial value, zeros, ones or a constant}}
func.func private @buffer_c4_drawn(tensor<f32> {optimus.binding = #optimus.buffer<role = "cache", lifetime = state, init = <normal, stddev = 1.0, stream = 3>, reset = step>})

// -----

// expected-error @below {{C5: expected what host fills to live for a call, without an initial value and a parameter}}
func.func private @buffer_c5(tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = state, filled_by = host>})

// -----

// expected-error @below {{C5: expected data to fill tokens, targets or positions, found "bytes"}}
func.func private @buffer_c5_data(tensor<f32> {optimus.binding = #optimus.buffer<role = "bytes", lifetime = call, filled_by = data>})

// -----

// expected-error @below {{C6: expected what is saved to be a parameter or a state, found the lifetime call}}
func.func private @buffer_c6(tensor<f32> {optimus.binding = #optimus.buffer<role = "logits", lifetime = call, saved_in = model>})

// -----

// expected-error @below {{A13: expected argument 0 to have no optimus.param beside its optimus.binding, which says it}}
func.func private @twice(tensor<f32> {optimus.param = "w", optimus.binding = #optimus.buffer<role = "lr", lifetime = call>})

// -----

// expected-error @below {{A13: expected argument 0 to have no optimus.init beside its optimus.binding, which says it}}
func.func private @init_twice(tensor<f32> {optimus.init = #optimus.init<zeros>, optimus.binding = #optimus.buffer<role = "lr", lifetime = call>})

// -----

// expected-error @below {{A13: expected result 0 to have no optimus.binding: argument 1 donates its buffer to it}}
func.func private @donated(tensor<f32>, tensor<f32> {optimus.donates = 0 : i64}) -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>})

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

// expected-error @below {{A1: expected optimus.model to have an i64 'padded_vocabulary' from 8 to 2147483647, found 7 : i64}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, padded_vocabulary = 7 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have an i64 'mask_token' from 0 to 7, found 8 : i64}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, objective = "masked_token", mask_token = 8 : i64}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have as 'config' the text of a JSON object, found "[1]"}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, config = "[1]"}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have as 'config' the text of a JSON object, found "{\22a\22:"}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, config = "{\22a\22:"}} {
}

// -----

// expected-error @below {{A1: expected optimus.model to have as 'config' the text of a JSON object, found {a = 1 : i64}}}
module attributes {optimus.model = {batch = 1 : i64, sequence = 1 : i64, vocabulary = 8 : i64, config = {a = 1}}} {
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

// expected-error @below {{A9: expected optimus.binding of argument 0 to be an #optimus.buffer, or of the input of a builder's program "tokens", "targets" or "random", found "scalar:"}}
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

// expected-error @below {{A14: expected "optimus.function" to be a dictionary with an integer 'version', a string 'hash' and dictionaries 'facts' and 'incidental', found {hash = "0"}}}
module attributes {optimus.function = {hash = "0"}} {
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

// -----

// expected-error @below {{A15: expected "optimus.entry" to be an #optimus.entry, found "train"}}
func.func @train() attributes {optimus.entry = "train"} {
  return
}

// -----

// expected-error @below {{C1: expected batch and sequence from 1 to 2147483647, found 2 and -1}}
func.func @train() attributes {optimus.entry = #optimus.entry<train, batch = 2, sequence = -1>} {
  return
}

// -----

// expected-error @below {{A16: expected optimus.packed of argument 0 to be an #optimus.packed, found "qkv"}}
func.func private @packed(tensor<4x6xf32> {optimus.packed = "qkv"})

// -----

// expected-error @below {{A16: expected optimus.packed of argument 0 to be a name of 1 to 255 bytes of UTF-8}}
func.func private @packed_name(tensor<4x6xf32> {optimus.packed = #optimus.packed<"a:b", [12, 6], row = 36, begin = 0>})

// -----

// expected-error @below {{A16: expected optimus.packed of argument 0 to be rows with as many of the parameter's elements each, found}}
func.func private @packed_rows(tensor<5x5xf32> {optimus.packed = #optimus.packed<"qkv", [12, 6], row = 36, begin = 0>})

// -----

// expected-error @below {{A16: expected optimus.packed of argument 0 to be rows with as many of the parameter's elements each, found}}
func.func private @packed_end(tensor<4x6xf32> {optimus.packed = #optimus.packed<"qkv", [12, 6], row = 36, begin = 30>})

// -----

// expected-error @below {{C1: expected the shape of a tensor, found [0, 6]}}
func.func private @packed_shape(tensor<4x6xf32> {optimus.packed = #optimus.packed<"qkv", [0, 6], row = 36, begin = 0>})

// -----

// expected-error @below {{C2: expected rows that fill [12, 6], found rows of 35 elements}}
func.func private @packed_row(tensor<4x6xf32> {optimus.packed = #optimus.packed<"qkv", [12, 6], row = 35, begin = 0>})

// -----

// expected-error @below {{C3: expected a place in a row of 36 elements, found 36}}
func.func private @packed_begin(tensor<4x6xf32> {optimus.packed = #optimus.packed<"qkv", [12, 6], row = 36, begin = 36>})
