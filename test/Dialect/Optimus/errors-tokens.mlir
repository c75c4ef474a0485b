// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each operation that looks tokens up, in
// alphabetical order.

func.func @embedding_c1(%t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected a table of rank 2, found [256]}}
  %0 = optimus.embedding %t, %i : (tensor<256xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @embedding_c2(%t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a result of shape [2, 8, 16], found [16, 16]}}
  %0 = optimus.embedding %t, %i : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<16x16xf32>
  return
}

// -----

func.func @embedding_c3(%t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C3: expected pad to be one of the table's 256 rows, found 256}}
  %0 = optimus.embedding %t, %i {pad = 256 : i64} : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  return
}

// -----

func.func @embedding_grad_c1(%dy: tensor<2x8x12xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected dy of shape [2, 8, 16], found [2, 8, 12]}}
  %0 = optimus.embedding_grad %dy, %i : (tensor<2x8x12xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @embedding_grad_c2(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a result of rank 2, found [16]}}
  %0 = optimus.embedding_grad %dy, %i : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<16xf32>
  return
}

// -----

func.func @embedding_grad_c3(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>, %a: tensor<128x16xf32>) {
  // expected-error @below {{C3: expected accumulate of shape [256, 16], found [128, 16]}}
  %0 = optimus.embedding_grad %dy, %i accumulate(%a) : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<128x16xf32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @embedding_grad_c4(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected pad to be one of the table's 256 rows, found -1}}
  %0 = optimus.embedding_grad %dy, %i {pad = -1 : i64} : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @head_c1(%h: tensor<2x8x12xf32>, %t: tensor<256x16xf32>) {
  // expected-error @below {{C1: expected h whose last dimension is 16, as the table's, found [2, 8, 12]}}
  %0 = optimus.head %h, %t : (tensor<2x8x12xf32>, tensor<256x16xf32>) -> tensor<2x8x256xf32>
  return
}

// -----

func.func @head_c2(%h: tensor<2x8x16xf32>, %t: tensor<256xf32>) {
  // expected-error @below {{C2: expected a table of rank 2, found [256]}}
  %0 = optimus.head %h, %t : (tensor<2x8x16xf32>, tensor<256xf32>) -> tensor<2x8x256xf32>
  return
}

// -----

func.func @head_c3(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %b: tensor<16xf32>) {
  // expected-error @below {{C3: expected bias of shape [256], found [16]}}
  %0 = optimus.head %h, %t bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<16xf32>) -> tensor<2x8x256xf32>
  return
}

// -----

func.func @head_c4(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>) {
  // expected-error @below {{C4: expected logits of shape [2, 8, 256], found [16, 256]}}
  %0 = optimus.head %h, %t : (tensor<2x8x16xf32>, tensor<256x16xf32>) -> tensor<16x256xf32>
  return
}

// -----

func.func @head_loss_c1(%h: tensor<2x8x12xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected h of shape [2, 8, 16], found [2, 8, 12]}}
  %0, %1 = optimus.head_loss %h, %t, %i : (tensor<2x8x12xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_c2(%h: tensor<2x8x16xf32>, %t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a table of rank 2, found [256]}}
  %0, %1 = optimus.head_loss %h, %t, %i : (tensor<2x8x16xf32>, tensor<256xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_c3(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<16xf32>) {
  // expected-error @below {{C3: expected bias of shape [256], found [16]}}
  %0, %1 = optimus.head_loss %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<16xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_chunk(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{attribute 'chunk' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0, %1 = optimus.head_loss %h, %t, %i {chunk = 0 : i64} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_grad_c1(%h: tensor<16x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected h of shape [2, 8, 16], found [16, 16]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<16x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<16x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c2(%h: tensor<2x8x16xf32>, %t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a table of rank 2, found [256]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256xf32>)
  return
}

// -----

func.func @head_loss_grad_c4(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected dh of shape [2, 8, 16], found [16, 16]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<16x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_table(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected dtable of shape [256, 16], found [16, 256]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<16x256xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_no_dbias(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<256xf32>) {
  // expected-error @below {{C4: expected dbias exactly where there is a bias}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<256xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_dbias(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<256xf32>) {
  // expected-error @below {{C4: expected dbias of shape [256], found [16]}}
  %0, %1, %2, %3, %4 = optimus.head_loss_grad %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<256xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<16xf32>)
  return
}
