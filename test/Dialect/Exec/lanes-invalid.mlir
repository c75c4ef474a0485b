// RUN: optimus-opt %s --optimus-lanes=count=4 --split-input-file --verify-diagnostics
// RUN: not optimus-opt %s --optimus-lanes=count=0 --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not optimus-opt %s --optimus-lanes=count=5000 --split-input-file 2>&1 | FileCheck %s --check-prefix=MANY

// NONE: error: expected 1 to 4096 lanes, found 0
// MANY: error: expected 1 to 4096 lanes, found 5000

// expected-error @below {{has 2 lanes already}}
module attributes {exec.lanes = 2 : i64} {
}

// -----

// expected-error @below {{'optimus.mesh' op has 2 ranks on axis "row"; expected one rank for a program of 4 lanes. Compile it for the mesh row:1,col:1}}
optimus.mesh @mesh <["row" = 2]>

// -----

optimus.mesh @mesh <["row" = 1]>
func.func @f(%a: memref<64xf32>, %b: memref<64xf32>) {
  // expected-error @below {{'exec.collective_start' op belongs on the queue row; expected computation alone in a program of 4 lanes}}
  %0 = exec.collective_start all_reduce sum over "row", %a to %b {outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %0
  return
}
