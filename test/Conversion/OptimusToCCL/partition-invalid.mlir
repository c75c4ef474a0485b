// RUN: optimus-opt %s --optimus-partition --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a mesh in the module; run --optimus-shard first}}
module {
  func.func @no_mesh(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    return %x : tensor<4x8xf32>
  }
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 2]>
// expected-error @+1 {{argument 0 has no sharding; run --optimus-shard first}}
func.func @undecided_argument(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @undecided_result(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>}) -> tensor<4x8xf32> {
  // expected-error @+1 {{result 0 has no sharding; run --optimus-shard first}}
  %0 = optimus.gelu %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @fused(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>}, %b: tensor<4xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}]>}) -> tensor<4x4xf32> {
  // expected-error @+1 {{has a bias, residual or scale, which products take in after they are partitioned}}
  %0 = optimus.matmul %x, %x bias(%b) {transpose_b, optimus.shardings = [#optimus.sharding<@mesh, [{}, {}]>]} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @constant() -> tensor<4x8xf32> {
  // expected-error @+1 {{is a constant that is sharded or padded; expected it whole on every rank}}
  %0 = arith.constant {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} dense<1.0> : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

optimus.mesh @mesh <["row" = 2, "col" = 2]>
func.func @no_rule(%x: tensor<8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}]>}) -> tensor<8xf32> {
  // expected-error @+1 {{has no sharding rule, so it cannot be partitioned}}
  %0 = arith.negf %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}]>]} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

optimus.mesh @mesh <["row" = 8, "col" = 9]>
func.func @too_many_panels(%x: tensor<72x72xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> tensor<72x72xf32> {
  // expected-error @+1 {{must move in 72 panels at least on this mesh, as 'optimus.move' asks, but expected at most 64; leave the attribute out}}
  %0 = optimus.matmul %x, %x {optimus.move = "panels", optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<72x72xf32>, tensor<72x72xf32>) -> tensor<72x72xf32>
  return %0 : tensor<72x72xf32>
}

// -----

#all = #optimus.sharding<@mesh, [{"row"}, {}, {}]>
optimus.mesh @mesh <["row" = 65536]>
// expected-error @+1 {{has argument 0 of shape [1, 65536, 131072], which this mesh pads to [65536, 65536, 131072], 562949953421312 elements; expected at most 281474976710656, choose a mesh of shorter axes}}
func.func @padded(%x: tensor<1x65536x131072xf32> {optimus.sharding = #all}) -> tensor<1x65536x131072xf32> {
  %0 = optimus.gelu %x {optimus.shardings = [#all]} : tensor<1x65536x131072xf32>
  return %0 : tensor<1x65536x131072xf32>
}

// -----

#one = #optimus.sharding<@mesh, [{}]>
optimus.mesh @mesh <["row" = 2]>
// expected-error @+1 {{has tensors of 2251799813685248 bytes on each rank in all; expected at most 1125899906842624, choose more ranks or a smaller model}}
func.func @held(%x: tensor<281474976710656xf32> {optimus.sharding = #one}) -> tensor<281474976710656xf32> {
  %0 = optimus.gelu %x {optimus.shardings = [#one]} : tensor<281474976710656xf32>
  return %0 : tensor<281474976710656xf32>
}

// -----

#sharded = #optimus.sharding<@mesh, [{"row"}]>
#one = #optimus.sharding<@mesh, [{}]>
optimus.mesh @mesh <["row" = 65536]>
// expected-error @+1 {{moves more than 2^63 bytes among all ranks; expected at most 2305843009213693951, choose fewer ranks or a smaller model}}
func.func @moved(%x: tensor<268435456xf32> {optimus.sharding = #sharded}) -> (tensor<268435456xf32> {optimus.sharding = #one}) {
  %0 = optimus.gelu %x {optimus.shardings = [#sharded]} : tensor<268435456xf32>
  return %0 : tensor<268435456xf32>
}
