// RUN: optimus-opt %s --optimus-build-kernels --split-input-file --verify-diagnostics

// expected-error @below {{is a kernel without its definition, 'exec.computes'}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel}

// -----

// expected-error @below {{there are no kernels of kind "gelu"}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "gelu"}}

// -----

// expected-error @below {{the description of a kernel of kind "row_dot": parameter 'n' must be an i64}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 4 : i64}}

// -----

// expected-error @below {{parameter 'rows' is 0, which is below 1 or too large}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 0 : i64, n = 4 : i64}}

// -----

// Whose product is no i64.
// expected-error @below {{parameter 'n' is 4611686018427387904, which is below 1 or too large}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 4 : i64, n = 4611686018427387904 : i64}}

// -----

// expected-error @below {{has parameters that are not the kernel's}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "clip", rows = 4 : i64}}

// -----

// expected-error @below {{parameter 'op' is no operation that computes element by element}}
func.func private @k(index, index, memref<8xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "elementwise", op = "optimus.sum_leading", rows = 1 : i64, cols = 8 : i64, repeats = array<i64: 0>, results = 1 : i64}}

// -----

// expected-error @below {{the part and the whole differ in rank}}
func.func private @k(index, index, memref<8xf32>, memref<5xi32>, memref<8xf32>, i64) attributes {exec.kernel, exec.computes = {kind = "dropout", local = array<i64: 8>, whole = array<i64: 1, 8>, addends = 0 : i64, rate = 0.5 : f64}}

// -----

// expected-error @below {{a stage needs a dictionary 'computes' and the names 'buffers' and 'scalars'}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_chain", stages = [{buffers = ["x"]}]}}

// -----

// expected-error @below {{a stage does not go over the rows of the first}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_chain", stages = [
  {computes = {kind = "row_dot", rows = 2 : i64, n = 4 : i64}, buffers = ["a", "b", "c"], scalars = []},
  {computes = {kind = "row_dot", rows = 4 : i64, n = 2 : i64}, buffers = ["a", "b", "d"], scalars = []}]}}

// -----

// expected-error @below {{a stage needs a name for each operand and scalar}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_chain", stages = [
  {computes = {kind = "row_dot", rows = 2 : i64, n = 4 : i64}, buffers = ["a", "b"], scalars = []}]}}

// -----

// expected-error @below {{stages use buffer 'a' as different types}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "row_chain", stages = [
  {computes = {kind = "row_dot", rows = 2 : i64, n = 4 : i64}, buffers = ["a", "b", "c"], scalars = []},
  {computes = {kind = "row_dot", rows = 2 : i64, n = 8 : i64}, buffers = ["a", "b", "d"], scalars = []}]}}

// -----

// expected-error @below {{computes what needs the type '(index, index, memref<8xf32>, memref<8xf32>, memref<2xf32>) -> ()', where floats may be narrower, but has the type '(index, index, memref<8xf32>, memref<4xf32>, memref<2xf32>) -> ()'}}
func.func private @k(index, index, memref<8xf32>, memref<4xf32>, memref<2xf32>) attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 2 : i64, n = 4 : i64}}

// -----

// Sums of squares stay f64.
// expected-error @below {{where floats may be narrower, but has the type}}
func.func private @k(index, index, memref<8xf32>, memref<1xf32>) attributes {exec.kernel, exec.computes = {kind = "sum_squares", n = 8 : i64}}

// -----

func.func private @k(index, index, memref<8xf32>)
func.func @f(%x: memref<8xf32>) {
  // expected-error @below {{launches @k, which is not marked as a kernel}}
  exec.launch @k(read %x : memref<8xf32>)
  return
}

// -----

func.func private @rms_rstd(index, index, memref<8xf32>, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "rms_rstd", rows = 8 : i64, size = 4 : i64, epsilon = 0.0 : f64}}
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  exec.launch @rms_rstd(read %x : memref<8xf32>, write %x : memref<8xf32>)
  // expected-error @below {{has access 3 to 'rstd', but the kernel has access 2}}
  exec.launch @rms_rstd(read %x : memref<8xf32>, update %y : memref<8xf32>)
  return
}

// -----

func.func private @row_dot(index, index, memref<1xf32>, memref<1xf32>, memref<1xf32>) attributes {exec.kernel, exec.computes = {kind = "row_dot", rows = 1 : i64, n = 1 : i64}}
func.func @f(%x: memref<1xf32>) {
  // expected-error @below {{has one buffer as 'a' and as 'sums', where the kernel does not work in place}}
  exec.launch @row_dot(read %x : memref<1xf32>, read %x : memref<1xf32>, write %x : memref<1xf32>)
  return
}

// -----

// expected-error @below {{the description of a kernel of kind "attention": the heads of keys do not divide those of queries}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "attention", batch = 1 : i64, seq = 2 : i64, heads = 3 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_stride = 12 : i64, kv_stride = 8 : i64}}

// -----

// expected-error @below {{the description of a kernel of kind "attention_key_grad": a stride is less than a token's heads, or too large}}
func.func private @k(index, index, memref<8xf32>) attributes {exec.kernel, exec.computes = {kind = "attention_key_grad", batch = 1 : i64, seq = 2 : i64, heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, q_stride = 8 : i64, kv_stride = 7 : i64}}
