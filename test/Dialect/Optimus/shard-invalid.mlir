// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --split-input-file --verify-diagnostics

// expected-error @+1 {{has a value of rank 2 with the role 'batch,sequence,hidden' of 3 dimensions}}
func.func @rank(%x: tensor<4x8xf32> {optimus.role = "batch,sequence,hidden"}) -> tensor<4x8xf32> {
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

// expected-error @+1 {{expected a position, one of tokens, vector, first, second, unpaired, table; found 'frist' in the role 'frist in.hidden,out.ffn'; did you mean 'first'?}}
func.func @position(%x: tensor<4x8xf32> {optimus.role = "frist in.hidden,out.ffn"}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

func.func @role_of_result(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{expected a class for each dimension, one of batch, sequence, heads, hidden, ffn, vocabulary; found 'hiden' in the role 'batch,hiden'; did you mean 'hidden'?}}
  %0 = optimus.gelu %x {optimus.role = "batch,hiden"} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Neither operand's path says more than the other's.
func.func @conflict(%a: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {}]>},
                    %b: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {}]>}) -> tensor<4x8xf32> {
  %0 = optimus.gelu %a : tensor<4x8xf32> loc("h.0.mlp.gelu")
  // expected-error @+1 {{'optimus.add' op has conflicting shardings for dimension 0 of result 0 of 'optimus.add': over row as argument 0 does, by its annotation, through result 0 of 'h.0.mlp.gelu'; but over col as argument 1 does, by its annotation; give it optimus.shardings or a layout}}
  %1 = optimus.add %0, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// The same from users to what they use.
func.func @conflict_of_users(%x: tensor<4x8xf32>, %b: tensor<4x8xf32> {optimus.role = "batch,ffn"}) -> tensor<4x8xf32> {
  // expected-error @+1 {{has conflicting shardings for dimension 0 of argument 0: over col as result 0 of 'optimus.add' does, by its annotation; but over row as argument 1 does, by the strategy or a layout}}
  %0 = optimus.add %x, %b {optimus.shardings = [#optimus.sharding<@mesh, [{"col"}, {}]>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
