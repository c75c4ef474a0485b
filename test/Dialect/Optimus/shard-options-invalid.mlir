// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=sumo' 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:x strategy=summa' 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not optimus-opt %s --optimus-shard='strategy=summa' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2 strategy=summa' 2>&1 | FileCheck %s --check-prefix=LACKS
// RUN: not optimus-opt %s --optimus-shard='mesh=depth:2,row:2,col:2 strategy=summa' 2>&1 | FileCheck %s --check-prefix=IDLE
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=data' 2>&1 | FileCheck %s --check-prefix=DATA
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=serial' 2>&1 | FileCheck %s --check-prefix=SERIAL
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:4 strategy=summa no-pad' 2>&1 | FileCheck %s --check-prefix=PAD
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa layouts="h.*.qkv=row,col"' 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa layouts="h.0.qvk=-,-,-,-,-"' 2>&1 | FileCheck %s --check-prefix=PATH
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:3 strategy=summa no-pad' -o /dev/null
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:4 strategy=summa' -o /dev/null

// STRATEGY: error: unknown strategy 'sumo'; known are serial, summa, summa-paper, megatron, megatron-sp, data
// MESH: error: bad mesh 'row:2,col:x': the size of axis 'col' is 'x'
// NONE: error: expected the option mesh, as mesh=row:2,col:2, or an optimus.mesh in the module
// LACKS: error: {{.*}}has no axis 'col', which strategy 'summa' uses; give both, as row:1,col:4
// IDLE: error: {{.*}}has an axis "depth" of size 2 that strategy 'summa' does not use: its ranks would all do the same
// DATA: error: {{.*}}has no axis 'data', which strategy 'data' uses; give it, as data:4
// SERIAL: error: {{.*}}has an axis "row" of size 2 that strategy 'serial' does not use
// RANK: error: {{.*}}has a value of rank 5 at 'h.0.qkv', which the layout 'h.*.qkv=row,col' means; expected an entry for each dimension
// PATH: error: layouts: nothing is at 'h.0.qvk'; expected the path of a parameter or an activation, as h.0.mlp.c_proj.weight, in which * stands for any part; did you mean 'h.0.qkv'?
// PAD: error: 'optimus.attention' op dimension 3 ("heads") of operand 0 has size 3, which is no multiple of 4, as the mesh's axis "col" of size 4 needs; choose another mesh, or let the dimension be padded
func.func @heads(%qkv: tensor<4x8x3x3x8xf32> {optimus.role = "batch,sequence,-,heads,- of h.0.qkv", optimus.dims = ["batch", "sequence", "three", "heads", "head_dim"]}) -> tensor<4x8x3x8xf32> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<4x8x3x3x8xf32>) -> (tensor<4x8x3x8xf32>, tensor<4x3x8xf32>)
  return %o : tensor<4x8x3x8xf32>
}
