// The two sides of each lemma of docs/proof.md, LEMMA_serial and LEMMA. They are
// proven equal and interpreted by unittests/Dialect/CCL/LemmasTest.cpp.

optimus.mesh @mesh <["row" = 2, "col" = 2]>

// Contracted dimensions: what ranks of "col" have are partial sums.
#xk = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
#wk = #ccl.local<[6, 4], #optimus.sharding<@mesh, [{"col"}, {}]>>
#part = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#rows = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @collective_serial(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  return %0, %0 : tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @collective(%x: tensor<4x3xf32, #xk>, %w: tensor<3x4xf32, #wk>) -> (tensor<4x4xf32>, tensor<2x4xf32, #rows>) {
  %0 = optimus.matmul %x, %w : (tensor<4x3xf32, #xk>, tensor<3x4xf32, #wk>) -> tensor<4x4xf32, #part>
  %1 = ccl.reduce_scatter %0 {axis = "col", dim = 0 : i64} : (tensor<4x4xf32, #part>) -> tensor<2x4xf32, #rows>
  %2 = ccl.all_gather %1 {axis = "col", dim = 0 : i64} : (tensor<2x4xf32, #rows>) -> tensor<4x4xf32>
  %3 = ccl.all_reduce %0 {axis = "col"} : (tensor<4x4xf32, #part>) -> tensor<4x4xf32>
  %4 = ccl.slice %3 {axis = "col", dim = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32, #rows>
  return %2, %4 : tensor<4x4xf32>, tensor<2x4xf32, #rows>
}

func.func @reshard_serial(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.gelu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @reshard(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.reshard %x : tensor<4xf32>
  %1 = optimus.gelu %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// 5 is padded to 6 and 7 to 8.
#x = #ccl.local<[5, 7], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#w = #ccl.local<[7, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#y = #ccl.local<[5, 6], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @distributed_product_serial(%x: tensor<5x7xf32>, %w: tensor<7x6xf32>) -> tensor<5x6xf32> {
  %0 = optimus.matmul %x, %w : (tensor<5x7xf32>, tensor<7x6xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}
func.func @distributed_product(%x: tensor<3x4xf32, #x>, %w: tensor<4x3xf32, #w>) -> tensor<3x3xf32, #y> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : (tensor<3x4xf32, #x>, tensor<4x3xf32, #w>) -> tensor<3x3xf32, #y>
  return %0 : tensor<3x3xf32, #y>
}

// 11 rows of the table are padded to 12.
#h = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#dtable = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#tokens = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @distributed_head_serial(%h: tensor<4x8xf32>, %table: tensor<11x8xf32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>) {
  %a, %n = optimus.head_loss %h, %table, %targets : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>)
  %b, %m, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>)
  return %a, %n, %b, %dh, %dtable : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>
}
func.func @distributed_head(%h: tensor<2x4xf32, #h>, %table: tensor<6x8xf32, #table>, %targets: tensor<2xi32, #tokens>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<2x4xf32, #h>, tensor<6x8xf32, #table>) {
  %a, %n = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<2x4xf32, #h>, tensor<6x8xf32, #table>, tensor<2xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  %b, %m, %dh, %dtable = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<2x4xf32, #h>, tensor<6x8xf32, #table>, tensor<2xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<2x4xf32, #h>, tensor<6x8xf32, #dtable>)
  %0 = ccl.all_reduce %a {axis = "row"} : (tensor<f32, #sum>) -> tensor<f32>
  %1 = ccl.all_reduce %n {axis = "row"} : (tensor<f32, #sum>) -> tensor<f32>
  %2 = ccl.all_reduce %b {axis = "row"} : (tensor<f32, #sum>) -> tensor<f32>
  %3 = ccl.all_reduce %dtable {axis = "row"} : (tensor<6x8xf32, #dtable>) -> tensor<6x8xf32, #table>
  return %0, %1, %2, %dh, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<2x4xf32, #h>, tensor<6x8xf32, #table>
}

func.func @folded_epilogue_serial(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %b: tensor<4xf32>, %r: tensor<4x4xf32>, %s: tensor<4x4xf32>, %stat: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  %1 = optimus.add %0, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %2 = optimus.add %r, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = optimus.mul %s, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dx, %dg, %db = optimus.layer_norm_grad %r, %s, %stat, %stat, %b : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %4 = optimus.add %dx, %r : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ex, %eg = optimus.rms_norm_grad %r, %s, %stat, %b : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  %5 = optimus.add %ex, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3, %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @folded_epilogue(%x: tensor<4x6xf32>, %w: tensor<6x4xf32>, %b: tensor<4xf32>, %r: tensor<4x4xf32>, %s: tensor<4x4xf32>, %stat: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = optimus.matmul %x, %w bias(%b) residual(%r) scale(%s) : (tensor<4x6xf32>, tensor<6x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dx, %dg, %db = optimus.layer_norm_grad %r, %s, %stat, %stat, %b residual(%r) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %ex, %eg = optimus.rms_norm_grad %r, %s, %stat, %b residual(%s) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
  return %0, %dx, %ex : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

func.func @accumulation_serial(%dy: tensor<4x3xf32>, %tokens: tensor<4xi32>, %t: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %0 = optimus.embedding_grad %dy, %tokens {pad = 1 : i64} : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<5x3xf32>
  %1 = optimus.add %t, %0 : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %1 : tensor<5x3xf32>
}
func.func @accumulation(%dy: tensor<4x3xf32>, %tokens: tensor<4xi32>, %t: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %0 = optimus.embedding_grad %dy, %tokens accumulate(%t) {pad = 1 : i64} : (tensor<4x3xf32>, tensor<4xi32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}

func.func @sum_regrouped_serial(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>, %v: tensor<3xf32>, %u: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = optimus.add %a, %b : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = optimus.add %0, %c : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = optimus.add %1, %v : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %3 = optimus.add %2, %u : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}
func.func @sum_regrouped(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>, %v: tensor<3xf32>, %u: tensor<3xf32>) -> tensor<4x3xf32> {
  %0 = optimus.add %u, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = optimus.add %c, %0 : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %2 = optimus.add %a, %1 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = optimus.add %b, %2 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}

func.func @factors_swapped_serial(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @factors_swapped(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.mul %b, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @neutral_element_serial(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.gelu %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @neutral_element(%a: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %0 = optimus.add %zero, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = optimus.mul %one, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = optimus.sum_leading %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = optimus.gelu %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// To a narrower type and back is not nothing, and stays on both sides.
func.func @cast_back_serial(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.cast %a : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = optimus.cast %0 : (tensor<4xbf16>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @cast_back(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = optimus.cast %a : (tensor<4xf32>) -> tensor<4xbf16>
  %1 = optimus.cast %0 : (tensor<4xbf16>) -> tensor<4xf32>
  %2 = optimus.cast %1 : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = optimus.cast %2 : (tensor<4xbf16>) -> tensor<4xf32>
  %4 = optimus.cast %3 : (tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// Ranks add up in f32 what they round together.
#c = #ccl.local<[5, 6], #optimus.sharding<@mesh, [{"row"}, {}], unreduced = {"col"}>>
#d = #ccl.local<[5, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
#k = #ccl.local<[7, 6], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @narrowed_result_serial(%x: tensor<5x7xbf16>, %w: tensor<7x6xbf16>) -> tensor<5x6xbf16> {
  %0 = optimus.matmul %x, %w : (tensor<5x7xbf16>, tensor<7x6xbf16>) -> tensor<5x6xbf16>
  return %0 : tensor<5x6xbf16>
}
func.func @narrowed_result(%x: tensor<3x4xbf16, #x>, %w: tensor<4x6xbf16, #k>) -> tensor<3x6xbf16, #d> {
  %0 = optimus.matmul %x, %w : (tensor<3x4xbf16, #x>, tensor<4x6xbf16, #k>) -> tensor<3x6xf32, #c>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<3x6xf32, #c>) -> tensor<3x6xf32, #d>
  %2 = optimus.cast %1 : (tensor<3x6xf32, #d>) -> tensor<3x6xbf16, #d>
  return %2 : tensor<3x6xbf16, #d>
}

// Rows of 7 are sharded into 4 and 3, and one of padding.
#n = #ccl.local<[2, 7], #optimus.sharding<@mesh, [{}, {"col"}]>>
#v = #ccl.local<[7], #optimus.sharding<@mesh, [{"col"}]>>
#mine = #ccl.local<[2, 4], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @merged_moments_serial(%x: tensor<2x7xf32>, %g: tensor<7xf32>, %b: tensor<7xf32>) -> (tensor<2x7xf32>, tensor<2xf32>, tensor<2xf32>) {
  %y, %mean, %rstd = optimus.layer_norm %x, %g, %b {epsilon = 1.0e-05 : f64} : (tensor<2x7xf32>, tensor<7xf32>, tensor<7xf32>) -> (tensor<2x7xf32>, tensor<2xf32>, tensor<2xf32>)
  return %y, %mean, %rstd : tensor<2x7xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @merged_moments(%x: tensor<2x4xf32, #n>, %g: tensor<4xf32, #v>, %b: tensor<4xf32, #v>) -> (tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>) {
  %0 = optimus.row_moments %x : (tensor<2x4xf32, #n>) -> tensor<2x2xf32, #mine>
  %1 = ccl.all_gather %0 {axis = "col", dim = 1 : i64} : (tensor<2x2xf32, #mine>) -> tensor<2x4xf32>
  %mean, %rstd = optimus.merge_moments %1 {counts = array<i64: 4, 3>, epsilon = 1.0e-05 : f64} : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %y = optimus.normalize %x, %mean, %rstd, %g, %b : (tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32, #v>, tensor<4xf32, #v>) -> tensor<2x4xf32, #n>
  return %y, %mean, %rstd : tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>
}

#sums = #ccl.local<[2, 2], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @layer_norm_parts_serial(%dy: tensor<2x7xf32>, %x: tensor<2x7xf32>, %mean: tensor<2xf32>, %rstd: tensor<2xf32>, %g: tensor<7xf32>, %r: tensor<2x7xf32>) -> (tensor<2x7xf32>, tensor<7xf32>, tensor<7xf32>) {
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %mean, %rstd, %g residual(%r) : (tensor<2x7xf32>, tensor<2x7xf32>, tensor<2xf32>, tensor<2xf32>, tensor<7xf32>, tensor<2x7xf32>) -> (tensor<2x7xf32>, tensor<7xf32>, tensor<7xf32>)
  return %dx, %dg, %db : tensor<2x7xf32>, tensor<7xf32>, tensor<7xf32>
}
func.func @layer_norm_parts(%dy: tensor<2x4xf32, #n>, %x: tensor<2x4xf32, #n>, %mean: tensor<2xf32>, %rstd: tensor<2xf32>, %g: tensor<4xf32, #v>, %r: tensor<2x4xf32, #n>) -> (tensor<2x4xf32, #n>, tensor<4xf32, #v>, tensor<4xf32, #v>) {
  %dg, %db = optimus.norm_param_grad %dy, %x, %mean, %rstd : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4xf32, #v>, tensor<4xf32, #v>)
  %0 = optimus.norm_grad_sums %dy, %x, %mean, %rstd, %g : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32, #v>) -> tensor<2x2xf32, #sums>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<2x2xf32, #sums>) -> tensor<2x2xf32>
  %dx = optimus.norm_grad_apply %dy, %x, %mean, %rstd, %g, %1 residual(%r) {size = 7 : i64} : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32, #v>, tensor<2x2xf32>, tensor<2x4xf32, #n>) -> tensor<2x4xf32, #n>
  return %dx, %dg, %db : tensor<2x4xf32, #n>, tensor<4xf32, #v>, tensor<4xf32, #v>
}

#dots = #ccl.local<[2], #optimus.sharding<@mesh, [{}], unreduced = {"col"}>>
func.func @rms_norm_parts_serial(%x: tensor<2x7xf32>, %dy: tensor<2x7xf32>, %g: tensor<7xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>, tensor<7xf32>) {
  %y, %rstd = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<2x7xf32>, tensor<7xf32>) -> (tensor<2x7xf32>, tensor<2xf32>)
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %rstd, %g : (tensor<2x7xf32>, tensor<2x7xf32>, tensor<2xf32>, tensor<7xf32>) -> (tensor<2x7xf32>, tensor<7xf32>)
  return %y, %dx, %dg : tensor<2x7xf32>, tensor<2x7xf32>, tensor<7xf32>
}
func.func @rms_norm_parts(%x: tensor<2x4xf32, #n>, %dy: tensor<2x4xf32, #n>, %g: tensor<4xf32, #v>) -> (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<4xf32, #v>) {
  %0 = optimus.row_dot %x, %x : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>) -> tensor<2xf32, #dots>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<2xf32, #dots>) -> tensor<2xf32>
  %rstd = optimus.rms_rstd %1 {epsilon = 1.0e-06 : f64, size = 7 : i64} : tensor<2xf32>
  %y = optimus.rms_scale %x, %rstd, %g : (tensor<2x4xf32, #n>, tensor<2xf32>, tensor<4xf32, #v>) -> tensor<2x4xf32, #n>
  %2 = optimus.row_dot %dy, %x weight(%g) : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<4xf32, #v>) -> tensor<2xf32, #dots>
  %3 = ccl.all_reduce %2 {axis = "col"} : (tensor<2xf32, #dots>) -> tensor<2xf32>
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %rstd, %g sums(%3) {size = 7 : i64} : (tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<2xf32>, tensor<4xf32, #v>, tensor<2xf32>) -> (tensor<2x4xf32, #n>, tensor<4xf32, #v>)
  return %y, %dx, %dg : tensor<2x4xf32, #n>, tensor<2x4xf32, #n>, tensor<4xf32, #v>
}

#xs = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @norm_of_squares_serial(%x: tensor<4x6xf32>, %v: tensor<6xf32>) -> tensor<f32> {
  %0 = optimus.global_norm %x, %v : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @norm_of_squares(%x: tensor<2x6xf32, #xs>, %v: tensor<6xf32>) -> tensor<f32> {
  %0 = optimus.sum_squares %x : (tensor<2x6xf32, #xs>) -> tensor<f32, #sum>
  %1 = ccl.all_reduce %0 {axis = "row"} : (tensor<f32, #sum>) -> tensor<f32>
  %2 = optimus.sum_squares %v : (tensor<6xf32>) -> tensor<f32>
  %3 = optimus.add %2, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = optimus.sqrt %3 : tensor<f32>
  return %4 : tensor<f32>
}

func.func @value_beside_slope_serial(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %slope = optimus.gelu_with_slope %x {exact} : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @value_beside_slope(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = optimus.gelu %x {exact} : tensor<4xf32>
  return %y : tensor<4xf32>
}

func.func @loss_beside_gradient_serial(%h: tensor<4x8xf32>, %table: tensor<11x8xf32>, %targets: tensor<4xi32>, %bias: tensor<11xf32>) -> (tensor<f32>, tensor<f32>) {
  %a, %n, %dh, %dtable, %dbias = optimus.head_loss_grad %h, %table, %targets bias(%bias) : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>, tensor<11xf32>) -> (tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>, tensor<11xf32>)
  return %a, %n : tensor<f32>, tensor<f32>
}
func.func @loss_beside_gradient(%h: tensor<4x8xf32>, %table: tensor<11x8xf32>, %targets: tensor<4xi32>, %bias: tensor<11xf32>) -> (tensor<f32>, tensor<f32>) {
  %a, %m = optimus.head_loss %h, %table, %targets bias(%bias) : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>, tensor<11xf32>) -> (tensor<f32>, tensor<f32>)
  %b, %n = optimus.head_loss %h, %table, %targets : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>)
  return %a, %n : tensor<f32>, tensor<f32>
}

func.func @chunks_serial(%h: tensor<4x8xf32>, %table: tensor<11x8xf32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<11x8xf32>) {
  %a, %n, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>)
  return %a, %dtable : tensor<f32>, tensor<11x8xf32>
}
func.func @chunks(%h: tensor<4x8xf32>, %table: tensor<11x8xf32>, %targets: tensor<4xi32>) -> (tensor<f32>, tensor<11x8xf32>) {
  %a, %n, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets {chunk = 3 : i64} : (tensor<4x8xf32>, tensor<11x8xf32>, tensor<4xi32>) -> (tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<11x8xf32>)
  return %a, %dtable : tensor<f32>, tensor<11x8xf32>
}
