// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --split-input-file --verify-diagnostics

// expected-error @+1 {{has a value of rank 2 with role 'residual', which strategy 'summa' lays out as [data+row,-,col]}}
func.func @rank(%x: tensor<4x8xf32> {optimus.role = "residual"}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected the annotation of a complete value}}
func.func @unreduced(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}, {}], unreduced = {"row"}>}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

func.func @axis(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expected the annotation to name axes of @mesh, found "data"}}
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"data"}, {}]>]} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{expected the annotation to be on the mesh @mesh}}
func.func @other(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@others, [{"row"}, {}]>}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{is not the mesh 'row:2,col:2' that the option asks for; leave the option out or this operation}}
optimus.mesh @mesh <["row" = 2, "col" = 3]>

// -----

// expected-error @+1 {{no strategy knows the role 'mlp_up.wieght'; roles are as qkv.weight or mlp_down.weight; did you mean 'mlp_up.weight'?}}
func.func @role(%x: tensor<4x8xf32> {optimus.role = "mlp_up.wieght"}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

func.func @role_of_result(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{no strategy knows the role 'residul'; roles are as qkv.weight or mlp_down.weight; did you mean 'residual'?}}
  %0 = optimus.gelu %x {optimus.role = "residul"} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
