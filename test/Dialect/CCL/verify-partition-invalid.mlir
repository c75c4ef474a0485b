// RUN: optimus-opt %s --optimus-verify-partition --split-input-file --verify-diagnostics

// A part that is too small for its share of the whole.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#r = #ccl.local<[6], #optimus.sharding<@mesh, [{"row"}]>>
func.func @small_part(%a: tensor<2xf32, #r>) -> tensor<2xf32, #r> {
  // expected-error @+1 {{#ccl.local C4: expected dimension 0 of operand 0 to hold a part of 6 sharded into 2, found 2}}
  %0 = optimus.gelu %a : tensor<2xf32, #r>
  return %0 : tensor<2xf32, #r>
}

// -----

// Two operands sharded by different axes into parts of one size.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#c = #ccl.local<[4], #optimus.sharding<@mesh, [{"col"}]>>
func.func @swapped_axes(%a: tensor<2xf32, #r>, %b: tensor<2xf32, #c>) -> tensor<2xf32, #r> {
  // expected-error @+1 {{V1: expected dimension 0 of operand 1 to be sharded by {row} as elsewhere, found {col}}}
  %0 = optimus.add %a, %b : (tensor<2xf32, #r>, tensor<2xf32, #c>) -> tensor<2xf32, #r>
  return %0 : tensor<2xf32, #r>
}

// -----

// A padded tensor and one that is longer.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#three = #ccl.local<[3], #optimus.sharding<@mesh, [{"row"}]>>
#four = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
func.func @other_extent(%a: tensor<2xf32, #three>, %b: tensor<2xf32, #four>) -> tensor<2xf32, #three> {
  // expected-error @+1 {{V1: expected dimension 0 of operand 1 to be of 3 elements in all, found 4}}
  %0 = optimus.add %a, %b : (tensor<2xf32, #three>, tensor<2xf32, #four>) -> tensor<2xf32, #three>
  return %0 : tensor<2xf32, #three>
}

// -----

// The mean of half a row.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#v = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}]>>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
func.func @norm_of_a_part(%x: tensor<2x4xf32, #x>, %g: tensor<4xf32, #v>) -> tensor<2x4xf32, #x> {
  // expected-error @+1 {{V2: expected dimension 1 of operand 0 to be whole, found it sharded by {col}}}
  %y, %m, %s = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<2x4xf32, #x>, tensor<4xf32, #v>, tensor<4xf32, #v>) -> (tensor<2x4xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #r>)
  return %y : tensor<2x4xf32, #x>
}

// -----

// A product of parts of the contracted dimension, taken for the whole product.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#a = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{}, {"col"}]>>
#b = #ccl.local<[8, 4], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @dropped_all_reduce(%a: tensor<4x4xf32, #a>, %b: tensor<4x4xf32, #b>) -> tensor<4x4xf32> {
  // expected-error @+1 {{V3: expected result 0 to be unreduced over {col}, found it unreduced over {}}}
  %0 = optimus.matmul %a, %b : (tensor<4x4xf32, #a>, tensor<4x4xf32, #b>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// A complete value, taken for a partial sum: a later sum would count it twice.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#u = #ccl.local<[4], #optimus.sharding<@mesh, [{}], unreduced = {"col"}>>
func.func @needless_sum(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{V3: expected result 0 to be unreduced over {}, found it unreduced over {col}}}
  %0 = optimus.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32, #u>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4xf32, #u>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// A bias that every rank adds to its partial sum.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#u = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @bias_before_the_sum(%x: tensor<4x8xf32, #u>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{V4: expected every operand to be a partial sum over {col}, as result 0 is, found operand 1 to be one over {}}}
  %0 = optimus.add %x, %b : (tensor<4x8xf32, #u>, tensor<8xf32>) -> tensor<4x8xf32, #u>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4x8xf32, #u>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// The same, folded into the product.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#a = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{}, {"col"}]>>
#b = #ccl.local<[8, 4], #optimus.sharding<@mesh, [{"col"}, {}]>>
#u = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @fused_bias_before_the_sum(%a: tensor<4x4xf32, #a>, %b: tensor<4x4xf32, #b>, %v: tensor<4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{V4: expected every operand to be a partial sum over {col}, as result 0 is, found operand 2 to be one over {}}}
  %0 = optimus.matmul %a, %b bias(%v) : (tensor<4x4xf32, #a>, tensor<4x4xf32, #b>, tensor<4xf32>) -> tensor<4x4xf32, #u>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4x4xf32, #u>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// Nothing but a sum can be made of partial sums.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#u = #ccl.local<[4], #optimus.sharding<@mesh, [{}], unreduced = {"col"}>>
func.func @gelu_of_partial_sums(%x: tensor<4xf32, #u>) -> tensor<4xf32> {
  // expected-error @+1 {{V4: expected operand 0 to be complete, found it unreduced over {col}}}
  %0 = optimus.gelu %x : tensor<4xf32, #u>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4xf32, #u>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// The squares of a vector that every row holds, summed over rows.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#w = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#v = #ccl.local<[4], #optimus.sharding<@mesh, [{"col"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"col", "row"}>>
func.func @norm_counted_twice(%w: tensor<2x2xf32, #w>, %v: tensor<2xf32, #v>) {
  // expected-error @+1 {{V4: expected every operand to be a partial sum over {col, row}, as result 0 is, found operand 1 to be one over {col}}}
  %0 = optimus.sum_squares %w, %v : (tensor<2x2xf32, #w>, tensor<2xf32, #v>) -> tensor<f32, #sum>
  return
}

// -----

// The squares of partial sums are not partial sums of the square.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#u = #ccl.local<[4], #optimus.sharding<@mesh, [{}], unreduced = {"row"}>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @norm_of_partial_sums(%g: tensor<4xf32, #u>) {
  // expected-error @+1 {{V4: expected operand 0 to be complete, found it unreduced over {row}}}
  %0 = optimus.sum_squares %g : (tensor<4xf32, #u>) -> tensor<f32, #sum>
  return
}

// -----

// A gradient that leaves before it is summed.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>
#u = #ccl.local<[8], #optimus.sharding<@mesh, [{}], unreduced = {"row"}>>
func.func @unreduced_gradient(%dy: tensor<2x8xf32, #x>) -> tensor<8xf32, #u> {
  %0 = optimus.sum_leading %dy : (tensor<2x8xf32, #x>) -> tensor<8xf32, #u>
  // expected-error @+1 {{V5: expected result 0 of the function to be complete; the reduction over {row} is missing}}
  return %0 : tensor<8xf32, #u>
}

// -----

// One value as factor and as residual: each operand by its own part.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#u = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @factor_and_residual(%x: tensor<4x4xf32, #u>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{V4: expected operand 0 to be complete, found it unreduced over {col}}}
  %0 = optimus.matmul %x, %w residual(%x) : (tensor<4x4xf32, #u>, tensor<4x4xf32>, tensor<4x4xf32, #u>) -> tensor<4x4xf32, #u>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4x4xf32, #u>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// The gradient of keys that heads of queries on two ranks share.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#q = #ccl.local<[1, 3, 2, 2, 2], #optimus.sharding<@mesh, [{}, {}, {}, {"col"}, {}]>>
#kv = #ccl.local<[1, 3, 2, 2], #optimus.sharding<@mesh, [{}, {}, {}, {}]>>
#lse = #ccl.local<[1, 2, 2, 3], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
func.func @shared_keys(%q: tensor<1x3x2x1x2xf32, #q>, %kv: tensor<1x3x2x2xf32, #kv>, %lse: tensor<1x2x1x3xf32, #lse>) -> tensor<1x3x2x2xf32, #kv> {
  // expected-error @+1 {{V3: expected result 1 to be unreduced over {col}, found it unreduced over {}}}
  %dq, %dk, %dv = optimus.attention_grad %q, %q, %lse, %q, %kv, %kv : (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x1x2xf32, #q>, tensor<1x2x1x3xf32, #lse>, tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>) -> (tensor<1x3x2x1x2xf32, #q>, tensor<1x3x2x2xf32, #kv>, tensor<1x3x2x2xf32, #kv>)
  return %dk : tensor<1x3x2x2xf32, #kv>
}

// -----

// The mean square of half a row.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#v = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}]>>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
func.func @half_a_mean_square(%x: tensor<2x4xf32, #x>, %g: tensor<4xf32, #v>) -> tensor<2x4xf32, #x> {
  // expected-error @+1 {{V2: expected dimension 1 of operand 0 to be whole, found it sharded by {col}}}
  %y, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<2x4xf32, #x>, tensor<4xf32, #v>) -> (tensor<2x4xf32, #x>, tensor<2xf32, #r>)
  return %y : tensor<2x4xf32, #x>
}

// -----

// A sum of squares that was never added up.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#ru = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}], unreduced = {"col"}>>
func.func @unreduced_squares(%s: tensor<2xf32, #ru>) -> tensor<2xf32, #ru> {
  // expected-error @+1 {{V4: expected operand 0 to be complete, found it unreduced over {col}}}
  %r = optimus.rms_rstd %s {size = 8 : i64, epsilon = 1.0e-06 : f64} : tensor<2xf32, #ru>
  return %r : tensor<2xf32, #ru>
}

// -----

// Positions of half a sequence, counted from its middle.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[4, 8, 2], #optimus.sharding<@mesh, [{}, {"row"}, {}]>>
func.func @half_the_positions(%x: tensor<4x4x2xf32, #x>) -> tensor<4x4x2xf32, #x> {
  // expected-error @+1 {{V2: expected dimension 1 of operand 0 to be whole, found it sharded by {row}}}
  %y = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<4x4x2xf32, #x>
  return %y : tensor<4x4x2xf32, #x>
}

// -----

// Parts of a sum that are rounded before they are added up.
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#p = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#x = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @rounded_before_the_sum(%s: tensor<2x8xf32, #p>) -> tensor<2x8xbf16, #x> {
  // expected-error @+1 {{V4: expected operand 0 to be complete, found it unreduced over {col}}}
  %0 = optimus.cast %s : (tensor<2x8xf32, #p>) -> tensor<2x8xbf16, #p>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<2x8xbf16, #p>) -> tensor<2x8xbf16, #x>
  return %1 : tensor<2x8xbf16, #x>
}

// -----

// Of what has no rule nothing is known.
func.func @no_rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{V6: has neither a sharding rule nor symbolic values, so the proof cannot pass through it}}
  %0 = arith.negf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{V6: expected tensors, found 'f32'}}
func.func @no_tensor(%x: f32) -> f32 {
  return %x : f32
}

// -----

// Two ranks' ones would make two. Zeros make zero.
optimus.mesh @mesh <["row" = 1, "col" = 2]>
#p = #ccl.local<[4], #optimus.sharding<@mesh, [{}], unreduced = {"col"}>>
func.func @constants() -> tensor<4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32, #p>
  // expected-error @+1 {{V3: expected a constant to be complete, or zero; found it unreduced over {col}}}
  %ones = arith.constant dense<1.0> : tensor<4xf32, #p>
  %0 = optimus.add %zeros, %ones : (tensor<4xf32, #p>, tensor<4xf32, #p>) -> tensor<4xf32, #p>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4xf32, #p>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
