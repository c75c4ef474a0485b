// RUN: optimus-interpret %s --function sharded --compare-with serial --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded_grad --compare-with serial_grad --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function turned --compare-with serial_turned --draw 1 | FileCheck %s --check-prefix=TURNED
// RUN: not optimus-interpret %s --function not_zero --draw 1 2>&1 | FileCheck %s --check-prefix=PADDING
// RUN: optimus-opt %s --optimus-verify-partition

// A row of 5 elements, sharded in three: 2, 2 and 1 with one of padding; and 4 rows
// of which two ranks hold 2 each. Sums are divided by the true extent.
// CHECK: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial

optimus.mesh @mesh <["row" = 2, "col" = 3]>
#x = #ccl.local<[4, 5], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#v = #ccl.local<[5], #optimus.sharding<@mesh, [{"col"}]>>
#vu = #ccl.local<[5], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
#r = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
#ru = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}], unreduced = {"col"}>>

func.func @serial(%x: tensor<4x5xf32>, %gain: tensor<5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>) {
  %y, %rstd = optimus.rms_norm %x, %gain {epsilon = 1.0e-05 : f64} : (tensor<4x5xf32>, tensor<5xf32>) -> (tensor<4x5xf32>, tensor<4xf32>)
  return %y, %rstd : tensor<4x5xf32>, tensor<4xf32>
}
func.func @sharded(%x: tensor<2x2xf32, #x>, %gain: tensor<2xf32, #v>) -> (tensor<2x2xf32, #x>, tensor<2xf32, #r>) {
  %part = optimus.row_dot %x, %x : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>) -> tensor<2xf32, #ru>
  %squares = ccl.all_reduce %part {axis = "col"} : (tensor<2xf32, #ru>) -> tensor<2xf32, #r>
  %rstd = optimus.rms_rstd %squares {size = 5 : i64, epsilon = 1.0e-05 : f64} : tensor<2xf32, #r>
  %y = optimus.rms_scale %x, %rstd, %gain : (tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #v>) -> tensor<2x2xf32, #x>
  return %y, %rstd : tensor<2x2xf32, #x>, tensor<2xf32, #r>
}

func.func @serial_grad(%dy: tensor<4x5xf32>, %x: tensor<4x5xf32>, %rstd: tensor<4xf32>, %gain: tensor<5xf32>, %res: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>) {
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %rstd, %gain residual(%res) : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>)
  return %dx, %dg : tensor<4x5xf32>, tensor<5xf32>
}
func.func @sharded_grad(%dy: tensor<2x2xf32, #x>, %x: tensor<2x2xf32, #x>, %rstd: tensor<2xf32, #r>, %gain: tensor<2xf32, #v>, %res: tensor<2x2xf32, #x>) -> (tensor<2x2xf32, #x>, tensor<2xf32, #v>) {
  %part = optimus.row_dot %dy, %x weight(%gain) : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>, tensor<2xf32, #v>) -> tensor<2xf32, #ru>
  %sums = ccl.all_reduce %part {axis = "col"} : (tensor<2xf32, #ru>) -> tensor<2xf32, #r>
  %dx, %dgu = optimus.rms_norm_grad %dy, %x, %rstd, %gain sums(%sums) residual(%res) {size = 5 : i64} : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>, tensor<2xf32, #r>, tensor<2xf32, #v>, tensor<2xf32, #r>, tensor<2x2xf32, #x>) -> (tensor<2x2xf32, #x>, tensor<2xf32, #vu>)
  %dg = ccl.all_reduce %dgu {axis = "row"} : (tensor<2xf32, #vu>) -> tensor<2xf32, #v>
  return %dx, %dg : tensor<2x2xf32, #x>, tensor<2xf32, #v>
}

// Batch and heads may be sharded; positions are the same on every rank.
// TURNED: result0: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @serial_turned
#h = #ccl.local<[3, 4, 5, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
func.func @serial_turned(%x: tensor<3x4x5x2xf32>) -> tensor<3x4x5x2xf32> {
  %y = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<3x4x5x2xf32>
  return %y : tensor<3x4x5x2xf32>
}
func.func @turned(%x: tensor<2x4x2x2xf32, #h>) -> tensor<2x4x2x2xf32, #h> {
  %y = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<2x4x2x2xf32, #h>
  return %y : tensor<2x4x2x2xf32, #h>
}

// Padding that is not zero is found, not summed.
// PADDING: sums over padding that adds 1.000000e+00, in row 0, column 1; expected exactly 0
func.func @not_zero() -> tensor<2xf32, #r> {
  %x = arith.constant dense<1.0> : tensor<2x2xf32, #x>
  %part = optimus.row_dot %x, %x : (tensor<2x2xf32, #x>, tensor<2x2xf32, #x>) -> tensor<2xf32, #ru>
  %squares = ccl.all_reduce %part {axis = "col"} : (tensor<2xf32, #ru>) -> tensor<2xf32, #r>
  return %squares : tensor<2xf32, #r>
}
