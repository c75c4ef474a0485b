// RUN: optimus-opt %s --optimus-to-exec --split-input-file --verify-diagnostics

func.func @used_later(%p: tensor<8xf32> {optimus.donates = 0 : i64}) -> (tensor<8xf32>, tensor<8xf32>) {
  // expected-error @below {{cannot write result 0 of the function into the buffer that argument 0 donates: the argument is used later}}
  %0 = optimus.gelu %p : tensor<8xf32>
  %1 = optimus.sqrt %p : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

func.func @not_in_place(%p: tensor<4x4xf32> {optimus.donates = 0 : i64}) -> tensor<4x4xf32> {
  // expected-error @below {{the operation cannot work in place}}
  %0 = optimus.matmul %p, %p : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func @other_type(%p: tensor<4xf32> {optimus.donates = 0 : i64}, %x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{their types differ}}
  %0 = optimus.gelu %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @below {{cannot write result 0 of the function into the buffer that argument 0 donates: the value already has another place}}
func.func @copy(%p: tensor<8xf32> {optimus.donates = 0 : i64}, %x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @below {{argument 1 donates to result 0, which does not exist or has another donor}}
func.func @two_donors(%p: tensor<8xf32> {optimus.donates = 0 : i64}, %q: tensor<8xf32> {optimus.donates = 0 : i64}) -> tensor<8xf32> {
  return %p : tensor<8xf32>
}

// -----

// expected-error @below {{argument 0 must be a tensor of f32, bf16, f16 or i32 with static shape, but is 'tensor<?xf32>'}}
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// Of constants only those that repeat rows have one.
func.func @constant() -> tensor<2x2xf32> {
  // expected-error @below {{has no lowering to the device program}}
  %0 = arith.constant dense<[[0.0, 1.0], [1.0, 0.0]]> : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @unknown(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{has no lowering to the device program}}
  %0 = arith.addf %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#table = #ccl.local<[6, 4], #optimus.sharding<@mesh, [{"row"}, {}]>>
optimus.mesh @mesh <["row" = 2]>
func.func @chunk(%h: tensor<8x4xf32>, %table: tensor<3x4xf32, #table>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  // expected-error @below {{attribute 'chunk' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0, %1 = ccl.head_loss %h, %table, %targets {axis = "row", chunk = 0 : i64} : (tensor<8x4xf32>, tensor<3x4xf32, #table>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %0, %1 : tensor<f32>, tensor<f32>
}
