// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of a head and loss over a sharded vocabulary.

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c1(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "depth", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c1_table(%h: tensor<8x4xf32, #h>, %table: tensor<11x12xf32>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C1: expected a table whose rows "col" shards, found #optimus.sharding<@mesh, [{}, {}]>}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<11x12xf32>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c2(%h: tensor<8x4xf32, #h>, %table: tensor<4x6xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C2: expected a table with whole columns, found #optimus.sharding<@mesh, [{"col"}, {"row"}]>}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x6xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11], #optimus.sharding<@mesh, [{"col"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c2_rank(%h: tensor<8x4xf32, #h>, %table: tensor<4xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C2: expected a table of rank 2, found rank 1}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c1(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C1: expected an axis of @mesh, found "depth"}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "depth", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c1_table(%h: tensor<8x4xf32, #h>, %table: tensor<11x12xf32>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C1: expected a table whose rows "col" shards, found #optimus.sharding<@mesh, [{}, {}]>}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<11x12xf32>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<11x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c2(%h: tensor<8x4xf32, #h>, %table: tensor<4x6xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C2: expected a table with whole columns, found #optimus.sharding<@mesh, [{"col"}, {"row"}]>}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x6xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11], #optimus.sharding<@mesh, [{"col"}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c2_rank(%h: tensor<8x4xf32, #h>, %table: tensor<4xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C2: expected a table of rank 2, found rank 1}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#sharded = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{}, {"row"}]>>
func.func @head_loss_c3(%h: tensor<16x6xf32, #sharded>, %table: tensor<4x12xf32, #table>, %targets: tensor<16xi32>) {
  // expected-error @below {{C3: expected h whole or sharded by "col" along its last dimension, found #optimus.sharding<@mesh, [{}, {"row"}]>}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<16x6xf32, #sharded>, tensor<4x12xf32, #table>, tensor<16xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c3_rank(%h: tensor<8xf32, #tokens>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C3: expected h of rank 2, found 1}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8xf32, #tokens>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @head_loss_c3_tokens(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<16xi32>) {
  // expected-error @below {{C3: expected dimension 0 to be sharded alike in h and targets}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<16xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_c3_shape(%h: tensor<8x5xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C3: expected h of local shape [8, 4], found [8, 5]}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x5xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
func.func @head_loss_c4(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C4: expected loss_sum unreduced over the axes that shard targets, [row], found #optimus.sharding<@mesh, []>}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#other = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"col"}>>
func.func @head_loss_c4_count(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C4: expected real_count unreduced over the axes that shard targets, [row], found #optimus.sharding<@mesh, [], unreduced = {"col"}>}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #other>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_chunk(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{attribute 'chunk' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 0 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c3(%h: tensor<8x5xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C3: expected h of local shape [8, 4], found [8, 5]}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x5xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x5xf32, #h>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c4(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C4: expected loss_sum unreduced over the axes that shard targets, [row], found #optimus.sharding<@mesh, []>}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32>, tensor<f32>, tensor<8x4xf32, #h>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#dtable = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}], unreduced = {"row"}>>
#whole = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {}]>>
func.func @head_loss_grad_c5(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C5: expected dh of type 'tensor<8x4xf32, #ccl.local<[16, 12], <@mesh, [{"row"}, {"col"}]>>>', found 'tensor<8x12xf32, #ccl.local<[16, 12], <@mesh, [{"row"}, {}]>>>'}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x12xf32, #whole>, tensor<4x12xf32, #dtable>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @head_loss_grad_c6(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C6: expected dtable unreduced over the axes that shard targets, [row], found #optimus.sharding<@mesh, [{"col"}, {}]>}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<4x12xf32, #table>)
  return
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#h = #ccl.local<[16, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{"col"}, {}]>>
#tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"}]>>
#sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
#whole = #ccl.local<[11, 12], #optimus.sharding<@mesh, [{}, {}], unreduced = {"row"}>>
func.func @head_loss_grad_c6_shape(%h: tensor<8x4xf32, #h>, %table: tensor<4x12xf32, #table>, %targets: tensor<8xi32, #tokens>) {
  // expected-error @below {{C6: expected dtable to be sharded as the table of type}}
  %0, %1, %2, %3 = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64} : (tensor<8x4xf32, #h>, tensor<4x12xf32, #table>, tensor<8xi32, #tokens>) -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<11x12xf32, #whole>)
  return
}
