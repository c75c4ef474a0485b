// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected "exec.arena_bytes" to be an i64 from 0 to 4503599627370496, found 4503599627370497 : i64}}
func.func @arena(%arena: memref<64xi8>) attributes {exec.arena_bytes = 4503599627370497 : i64} {
  return
}

// -----

// expected-error @below {{expected "exec.lower_bound_bytes" to be an i64 from 0 to 4503599627370496, found -1 : i64}}
func.func @bound() attributes {exec.lower_bound_bytes = -1 : i64} {
  return
}

// -----

// expected-error @below {{expected "exec.commands" to be an i64 from 0 to 4294967295, found "many"}}
func.func @commands() attributes {exec.commands = "many"} {
  return
}

// -----

// expected-error @below {{expected "exec.peak_bytes" to be bytes by category, found {activation = -4 : i64}}}
func.func @peaks() attributes {exec.peak_bytes = {activation = -4 : i64}} {
  return
}

// -----

// expected-error @below {{expected "exec.communication" to be an array of {axis, bytes, messages}, found [{axis = "row"}]}}
func.func @communication() attributes {exec.communication = [{axis = "row"}]} {
  return
}

// -----

// expected-error @below {{expected "exec.schedule" to be what --optimus-schedule leaves, found {predicted_step_ms = 0x7FF0000000000000 : f64}}}
func.func @schedule() attributes {exec.schedule = {predicted_step_ms = 0x7FF0000000000000 : f64}} {
  return
}

// -----

// expected-error @below {{expected "exec.schedule" to be what --optimus-schedule leaves}}
func.func @schedule_waits() attributes {exec.schedule = {
    waits = [{axis = 0 : i64, collective = "reduce", count = 1 : i64, ms = 1.0, queued_ms = 0.0, idle_ms = 0.0}],
    predicted_step_ms = 1.0, predicted_comm_ms = 1.0, predicted_exposed_ms = 1.0, predicted_parts_ms = {},
    extra_workspace_bytes = 0 : i64, not_overlapped = 1 : i64, out_of_workspace = 0 : i64}} {
  return
}

// -----

// expected-error @below {{expected "exec.schedule" to be what --optimus-schedule leaves}}
func.func @schedule_carried() attributes {exec.schedule = {
    waits = [], predicted_step_ms = 1.0, predicted_comm_ms = 1.0, predicted_exposed_ms = 1.0, predicted_parts_ms = {},
    extra_workspace_bytes = 0 : i64, not_overlapped = 1 : i64, out_of_workspace = 0 : i64,
    carried = {count = -1 : i64, ms = 1.0, after_ms = 1.0, exposed_ms = 0.0}}} {
  return
}

// -----

// expected-error @below {{expected "exec.kernel" to be without a value, found 1 : i64}}
func.func @kernel() attributes {exec.kernel = 1 : i64} {
  return
}

// -----

// expected-error @below {{expected "exec.computes" to be a dictionary with a text 'kind', found {rows = 1 : i64}}}
func.func private @computes(index, index) attributes {exec.computes = {rows = 1 : i64}}

// -----

// expected-error @below {{has the attribute "exec.comands", which the exec dialect does not know here}}
func.func @unknown() attributes {exec.comands = 3 : i64} {
  return
}

// -----

// expected-error @below {{expected "exec.source_hash" to be 16 hexadecimal digits, found "hash"}}
module attributes {exec.source_hash = "hash"} {
}

// -----

// expected-error @below {{expected "exec.rounding" to be finite numbers from 0 by name, found {loss_sum = 0x7FF8000000000000 : f64}}}
module attributes {exec.rounding = {loss_sum = 0x7FF8000000000000 : f64}} {
}

// -----

// expected-error @below {{expected "exec.lanes" to be an i64 from 2 to 4096, found 1 : i64}}
module attributes {exec.lanes = 1 : i64} {
}

// -----

// expected-error @below {{expected "exec.manifest" to be a text, found 1 : i64}}
module attributes {exec.manifest = 1 : i64} {
}

// -----

// expected-error @below {{expected "exec.local_type" to be the type of a tensor of static shape, found f32}}
func.func @type(%x: memref<64xf32> {exec.local_type = f32}) {
  return
}

// -----

// expected-error @below {{expected argument 0 to hold the tensor of its "exec.local_type", 'tensor<8x9xf32>', found 'memref<64xf32>'}}
func.func @elements(%x: memref<64xf32> {exec.local_type = tensor<8x9xf32>}) {
  return
}

// -----

// expected-error @below {{expected argument 0 to hold the tensor of its "exec.local_type"}}
func.func @overflow(%x: memref<64xf32> {exec.local_type = tensor<4611686018427387904x4x16xf32>}) {
  return
}

// -----

// expected-error @below {{has the attribute "exec.local_type", which the exec dialect does not know here}}
func.func @result() -> (f32 {exec.local_type = f32}) {
  %0 = arith.constant 0.0 : f32
  return %0 : f32
}

// -----

// expected-error @below {{expected "exec.access" to be "read", "write" or "update", found "readwrite"}}
func.func @access(%x: memref<64xf32> {exec.access = "readwrite"}) {
  return
}
