// RUN: split-file %s %t
// RUN: not optimus-interpret %t/replicas.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=REPLICAS
// RUN: not optimus-interpret %t/counted-twice.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not optimus-interpret %t/statistics.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=STATISTICS
// RUN: not optimus-interpret %t/other-part.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not optimus-interpret %t/padding.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=PADDING
// RUN: not optimus-interpret %t/padded-result.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: not optimus-interpret %t/padded-token.mlir --function f --draw 4 2>&1 | FileCheck %s --check-prefix=TOKEN
// RUN: not optimus-interpret %t/vocabulary.mlir --function f 2>&1 | FileCheck %s --check-prefix=VOCABULARY
// RUN: not optimus-interpret %t/product-padding.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: not optimus-interpret %t/too-small.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not optimus-interpret %t/unknown-op.mlir --function f --draw 1 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Programs that verify but do not mean what they should.

//--- replicas.mlir
// A contracted dimension is sharded, and the partial sums are taken for the sum.
// REPLICAS: replicas.mlir:7:8: error: 'optimus.matmul' op result 0 does not mean on parts what it means on whole tensors: put together, element {{[0-9]}} of [2, 2] is {{.*}}; expected
optimus.mesh @mesh <["row" = 1, "col" = 2]>
#a = #ccl.local<[2, 4], #optimus.sharding<@mesh, [{}, {"col"}]>>
#b = #ccl.local<[4, 2], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @f(%a: tensor<2x2xf32, #a>, %b: tensor<2x2xf32, #b>) -> tensor<2x2xf32> {
  %0 = optimus.matmul %a, %b : (tensor<2x2xf32, #a>, tensor<2x2xf32, #b>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

//--- counted-twice.mlir
// A bias that every rank adds to its partial sum.
// TWICE: error: 'optimus.add' op result 0 does not mean on parts what it means on whole tensors
optimus.mesh @mesh <["row" = 1, "col" = 2]>
#u = #ccl.local<[2, 2], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#a = #ccl.local<[2, 4], #optimus.sharding<@mesh, [{}, {"col"}]>>
#b = #ccl.local<[4, 2], #optimus.sharding<@mesh, [{"col"}, {}]>>
func.func @f(%a: tensor<2x2xf32, #a>, %b: tensor<2x2xf32, #b>, %bias: tensor<2xf32>) -> tensor<2x2xf32> {
  %0 = optimus.matmul %a, %b : (tensor<2x2xf32, #a>, tensor<2x2xf32, #b>) -> tensor<2x2xf32, #u>
  %1 = optimus.add %0, %bias : (tensor<2x2xf32, #u>, tensor<2xf32>) -> tensor<2x2xf32, #u>
  %2 = ccl.all_reduce %1 {axis = "col"} : (tensor<2x2xf32, #u>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

//--- statistics.mlir
// The moments of a part of a row, taken for those of the row.
// STATISTICS: error: 'optimus.row_moments' op result 0 differs by {{.*}} between rank 0 (row 0, col 0) and rank 1 (row 0, col 1), which hold the same part
optimus.mesh @mesh <["row" = 1, "col" = 2]>
#x = #ccl.local<[2, 4], #optimus.sharding<@mesh, [{}, {"col"}]>>
func.func @f(%x: tensor<2x2xf32, #x>) -> tensor<2xf32> {
  %m = optimus.row_moments %x : (tensor<2x2xf32, #x>) -> tensor<2x2xf32>
  %mean, %rstd = optimus.merge_moments %m {counts = array<i64: 2>, epsilon = 1.0e-05 : f64} : (tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %mean : tensor<2xf32>
}

//--- other-part.mlir
// Two operands that are sharded by different axes into parts of one size.
// PART: error: 'optimus.mul' op result 0 does not mean on parts what it means on whole tensors
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#c = #ccl.local<[4], #optimus.sharding<@mesh, [{"col"}]>>
#both = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}], unreduced = {"col"}>>
func.func @f(%a: tensor<2xf32, #r>, %b: tensor<2xf32, #c>) -> tensor<2xf32, #both> {
  %0 = optimus.mul %a, %b : (tensor<2xf32, #r>, tensor<2xf32, #c>) -> tensor<2xf32, #both>
  return %0 : tensor<2xf32, #both>
}

//--- padding.mlir
// What a bias leaves in padding is summed over.
// PADDING: error: 'optimus.sum_leading' op on rank 1 (row 1): sums over padding that holds 1.000000e+00, in row 1; expected exactly 0
optimus.mesh @mesh <["row" = 2]>
#x = #ccl.local<[3, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#u = #ccl.local<[2], #optimus.sharding<@mesh, [{}], unreduced = {"row"}>>
func.func @f(%x: tensor<2x2xf32, #x>) -> tensor<2xf32> {
  %one = arith.constant dense<1.0> : tensor<2xf32>
  %0 = optimus.add %x, %one : (tensor<2x2xf32, #x>, tensor<2xf32>) -> tensor<2x2xf32, #x>
  %1 = optimus.sum_leading %0 : (tensor<2x2xf32, #x>) -> tensor<2xf32, #u>
  %2 = ccl.all_reduce %1 {axis = "row"} : (tensor<2xf32, #u>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

//--- padded-result.mlir
// RESULT: error: 'func.return' op grad:w holds 1.000000e+00 in padding, at element 1 of rank 1 (row 1); expected exactly 0
optimus.mesh @mesh <["row" = 2]>
#x = #ccl.local<[3], #optimus.sharding<@mesh, [{"row"}]>>
func.func @f(%x: tensor<2xf32, #x>) -> (tensor<2xf32, #x> {optimus.binding = #optimus.buffer<role = "grad", of = "w", lifetime = call>}) {
  %one = arith.constant dense<1.0> : tensor<2xf32>
  %0 = optimus.add %x, %one : (tensor<2xf32, #x>, tensor<2xf32>) -> tensor<2xf32, #x>
  return %0 : tensor<2xf32, #x>
}

//--- padded-token.mlir
// Targets without their binding are padded with zeros, which are real.
// TOKEN: error: 'optimus.head_loss' op on rank 1 (row 1): expected a negative target for padded token 1, found 0
optimus.mesh @mesh <["row" = 2]>
#h = #ccl.local<[3, 2], #optimus.sharding<@mesh, [{"row"}, {}]>>
#t = #ccl.local<[3], #optimus.sharding<@mesh, [{"row"}]>>
#s = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
func.func @f(%h: tensor<2x2xf32, #h>, %table: tensor<4x2xf32>, %targets: tensor<2xi32, #t>) -> tensor<f32, #s> {
  %l, %c = optimus.head_loss %h, %table, %targets : (tensor<2x2xf32, #h>, tensor<4x2xf32>, tensor<2xi32, #t>) -> (tensor<f32, #s>, tensor<f32, #s>)
  return %l : tensor<f32, #s>
}

//--- vocabulary.mlir
// VOCABULARY: error: 'optimus.embedding' op on rank 0: expected tokens in [0, 2), the rows of the table; found 2
func.func @f() -> tensor<1x1xf32> {
  %table = arith.constant dense<1.0> : tensor<2x1xf32>
  %tokens = arith.constant dense<2> : tensor<1xi32>
  %0 = optimus.embedding %table, %tokens : (tensor<2x1xf32>, tensor<1xi32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}

//--- product-padding.mlir
// Both operands hold something at the padded index 3 of the contracted
// dimension.
// PRODUCT: error: 'ccl.matmul' op contracts over padding that is not zero in either operand, at contracted index 3
optimus.mesh @mesh <["row" = 2, "col" = 2]>
#a = #ccl.local<[4, 3], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#b = #ccl.local<[3, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#c = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
func.func @f(%a: tensor<2x2xf32, #a>, %b: tensor<2x2xf32, #b>) -> tensor<2x2xf32, #c> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %0 = optimus.add %a, %one : (tensor<2x2xf32, #a>, tensor<f32>) -> tensor<2x2xf32, #a>
  %1 = optimus.add %b, %one : (tensor<2x2xf32, #b>, tensor<f32>) -> tensor<2x2xf32, #b>
  %2 = ccl.matmul %0, %1 {stationary = "c", panels = 2 : i64} : (tensor<2x2xf32, #a>, tensor<2x2xf32, #b>) -> tensor<2x2xf32, #c>
  return %2 : tensor<2x2xf32, #c>
}

//--- too-small.mlir
// SMALL: error: 'func.func' op expected parts that make up dimension 0 of {{.*}}; all ranks together hold 4 of 5
optimus.mesh @mesh <["row" = 2]>
#x = #ccl.local<[5], #optimus.sharding<@mesh, [{"row"}]>>
func.func @f(%x: tensor<2xf32, #x>) -> tensor<2xf32, #x> {
  return %x : tensor<2xf32, #x>
}

//--- unknown-op.mlir
// UNKNOWN: error: 'arith.addf' op cannot be interpreted: the interpreter executes the optimus and ccl dialects and constants
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
