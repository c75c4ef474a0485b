// RUN: not optimus-opt %s --optimus-schedule 2>&1 | FileCheck %s
// RUN: not optimus-opt %s --optimus-schedule='mode=backwards' 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not optimus-opt %s --optimus-schedule='extra-workspace=much' 2>&1 | FileCheck %s --check-prefix=EXTRA
// RUN: not optimus-opt %s --optimus-schedule='extra-workspace=-1%%' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not optimus-opt %s --optimus-schedule='machine-profile=%t.absent.json' 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: echo '{"version": 2}' > %t.version.json
// RUN: not optimus-opt %s --optimus-schedule='machine-profile=%t.version.json' 2>&1 | FileCheck %s --check-prefix=VERSION
// RUN: echo '{"version": 1, "comm": [{"backend": "local", "collective": "gossip"}]}' > %t.kind.json
// RUN: not optimus-opt %s --optimus-schedule='machine-profile=%t.kind.json' 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: echo '{"version": 1, "gemm": [{"threads": 1, "points": [{"m": 8, "n": 0, "k": 8, "seconds": 1}]}]}' > %t.extent.json
// RUN: not optimus-opt %s --optimus-schedule='machine-profile=%t.extent.json' 2>&1 | FileCheck %s --check-prefix=EXTENT
// RUN: echo '{"version": 1' > %t.cut.json
// RUN: not optimus-opt %s --optimus-schedule='machine-profile=%t.cut.json' 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: not optimus-opt %S/place-buffers-invalid.mlir --optimus-schedule --split-input-file 2>&1 | FileCheck %s --check-prefix=SIZES

// SIZES: error: 'func.func' op has buffers of 4503599627370560 bytes together; expected at most 4503599627370496
// MODE: error: unknown schedule 'backwards'; known are none, time, memory and balanced
// EXTRA: error: extra workspace 'much': expected a percentage of the peak, as 10%, or bytes, as 1048576 or 1MiB
// NEGATIVE: error: extra workspace '-1%': expected a percentage
// ABSENT: error: machine profile '{{.*}}absent.json': cannot open {{.*}}absent.json: No such file
// VERSION: error: machine profile '{{.*}}version.json': version: expected 1, the version that this compiler reads
// KIND: error: machine profile '{{.*}}kind.json': comm[0].collective: expected broadcast, reduce, all_reduce, all_gather or reduce_scatter
// EXTENT: error: machine profile '{{.*}}extent.json': gemm[0].points[0].n: expected an integer from 1
// CUT: error: machine profile '{{.*}}cut.json': {{.*}}optimus-run bench --gemm and --comm write one

// CHECK: error: 'func.func' op has an arena already; a schedule must come first
func.func @placed(%arena: memref<256xi8>, %b: memref<64xf32>) attributes {exec.arena_bytes = 256 : i64} {
  exec.copy %b {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}
