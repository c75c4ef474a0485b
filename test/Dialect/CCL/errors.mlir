// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// The encoding, then one case for each constraint of each collective, in
// alphabetical order.

// expected-error @below {{C1: expected a sharding of rank 2, found #optimus.sharding<@mesh, [{"row"}]>}}
func.func private @local_c1(tensor<4x6xf32, #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}]>>>)

// -----

// expected-error @below {{C1: expected a tensor of rank 2 for its encoding, found rank 1}}
func.func private @local_c1_tensor(tensor<4xf32, #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>>)

// -----

// expected-error @below {{C2: expected positive extents of at most 281474976710656 elements in all, found [0]}}
func.func private @local_c2(tensor<4xf32, #ccl.local<[0], #optimus.sharding<@mesh, [{"row"}]>>>)

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@other, [{}, {}], unreduced = {"col"}>>
func.func @local_c3_mesh(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{#ccl.local C3: expected operand 0 on the mesh @mesh, found #optimus.sharding<@other, [{}, {}], unreduced = {"col"}>}}
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"depth"}, {}], unreduced = {"col"}>>
func.func @local_c3_axis(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{#ccl.local C3: expected operand 0 to name axes of @mesh, found "depth"}}
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
#short = #ccl.local<[4, 7], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @local_c4(%x: tensor<4x6xf32>) {
  // expected-error @below {{#ccl.local C4: expected dimension 1 of result 0 to hold a part of 7 sharded into 3, found 2}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x2xf32, #short>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @all_gather_c1(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0 = ccl.all_gather %x {axis = "depth", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32>
  return
}

// -----

#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @all_gather_c1_mesh(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C1: expected a mesh in the module, found none}}
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row", "col"}, {}]>>
func.func @all_gather_c2(%x: tensor<2x6xf32, #sharded>) {
  // expected-error @below {{C2: expected "row" to be the fastest axis that shards dimension 0, found #optimus.sharding<@mesh, [{"row", "col"}, {}]>}}
  %0 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<2x6xf32, #sharded>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
#rows = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @all_gather_c2_result(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C2: expected a result sharded #optimus.sharding<@mesh, [{}, {}]>, found #optimus.sharding<@mesh, [{"row"}, {}]>}}
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32, #rows>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @all_gather_c2_dim(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C2: expected a dimension from 0 to 1, found 2}}
  %0 = ccl.all_gather %x {axis = "col", dim = 2 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @all_gather_c3(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C3: expected input and result to be parts of one tensor, found whole shapes [4, 5] and [4, 6]}}
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {"col"}]>>
#padded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {}]>>
func.func @all_gather_c3_local(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C3: expected a local shape [4, 6], found [4, 9]}}
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x9xf32, #padded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @all_gather_element_type(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{failed to verify that all of {input, result} have same element type}}
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x6xi32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @all_reduce_c1(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0 = ccl.all_reduce %x {axis = "depth"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @all_reduce_c2(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C2: expected an input unreduced over "row", found #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>}}
  %0 = ccl.all_reduce %x {axis = "row"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @all_reduce_c2_result(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C2: expected a result sharded #optimus.sharding<@mesh, [{}, {}]>, found #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>}}
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xf32, #partial>) -> tensor<4x6xf32, #partial>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
func.func @all_reduce_c3(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C3: expected input and result to be parts of one tensor, found whole shapes [4, 6] and [6, 4]}}
  %0 = ccl.all_reduce %x {axis = "col"} : (tensor<4x6xf32, #partial>) -> tensor<6x4xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @reduce_scatter_c1(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0 = ccl.reduce_scatter %x {axis = "depth", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @reduce_scatter_c2(%x: tensor<4x6xf32>) {
  // expected-error @below {{C2: expected an input unreduced over "col", found #optimus.sharding<@mesh, [{}, {}]>}}
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#rows = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @reduce_scatter_c2_result(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C2: expected a result sharded #optimus.sharding<@mesh, [{}, {"col"}]>, found #optimus.sharding<@mesh, [{"row"}, {}]>}}
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<2x6xf32, #rows>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 7], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#sharded = #ccl.local<[4, 7], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @reduce_scatter_c3(%x: tensor<4x7xf32, #partial>) {
  // expected-error @below {{C3: expected dimension 1 to be a multiple of 3, found 7}}
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x7xf32, #partial>) -> tensor<4x3xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @reduce_scatter_c3_local(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C3: expected a local shape [4, 2], found [4, 3]}}
  %0 = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<4x3xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @slice_c1(%x: tensor<4x6xf32>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0 = ccl.slice %x {axis = "depth", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @slice_c2(%x: tensor<4x2xf32, #sharded>) {
  // expected-error @below {{C2: expected an input that "col" does not shard, found #optimus.sharding<@mesh, [{}, {"col"}]>}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x2xf32, #sharded>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @slice_c2_unreduced(%x: tensor<4x6xf32, #partial>) {
  // expected-error @below {{C2: expected an input reduced over "col", found #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
func.func @slice_c2_result(%x: tensor<4x6xf32>) {
  // expected-error @below {{C2: expected a result sharded #optimus.sharding<@mesh, [{}, {"col"}]>, found #optimus.sharding<@mesh, [{}, {}]>}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @slice_c3(%x: tensor<4x6xf32>) {
  // expected-error @below {{C3: expected input and result to be parts of one tensor, found whole shapes [4, 6] and [4, 5]}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x2xf32, #sharded>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#sharded = #ccl.local<[4, 7], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @slice_c3_multiple(%x: tensor<4x7xf32>) {
  // expected-error @below {{C3: expected dimension 1 to be a multiple of 3, found 7}}
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x7xf32>) -> tensor<4x3xf32, #sharded>
  return
}

// -----

// expected-error @below {{C2: expected positive extents of at most 281474976710656 elements in all, found [4611686018427387904, 4]}}
func.func @local_c2_elements(%x: tensor<4x4xf32, #ccl.local<[4611686018427387904, 4], #optimus.sharding<@mesh, [{}, {}]>>>) {
  return
}

// -----

optimus.mesh @mesh <["row" = 65536]>
#x = #ccl.local<[4], #optimus.sharding<@mesh, [{}], unreduced = {"row"}>>
#sharded = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
func.func @local_c4_elements(%x: tensor<281474976710656xf32, #sharded>) {
  // expected-error @below {{#ccl.local C4: expected operand 0 to have at most 281474976710656 elements with padding, found more than 2^63}}
  %0 = ccl.all_gather %x {axis = "row", dim = 0 : i64} : (tensor<281474976710656xf32, #sharded>) -> tensor<4xf32>
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16388, 8], #optimus.sharding<@mesh, [{"row"}, {}]>>
#table = #ccl.local<[12, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16388], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c8(%h: tensor<8194x8xf32, #h>, %table: tensor<4x8xf32, #table>, %targets: tensor<8194xi32, #tokens>) {
  // expected-error @below {{C8: expected at most 4096 chunks, found 4097 of 2 of 8194 tokens; give larger chunks}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 2 : i64}
    : (tensor<8194x8xf32, #h>, tensor<4x8xf32, #table>, tensor<8194xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}
