// RUN: %optimus-opt %s --optimus-lanes=count=8 | FileCheck %s
// RUN: %optimus-opt %s --optimus-lanes=count=1 | FileCheck %s --check-prefix=ONE
// RUN: %optimus-opt %s --optimus-lanes=count=8 --optimus-place-buffers --optimus-order-commands --optimus-verify-exec --optimus-print-commands -o /dev/null | FileCheck %s --check-prefix=TABLE

// Commands, buffers and addresses are those of one lane; each is there once a
// lane, and the lanes of each memory lie a stride apart.

// CHECK:       module attributes {exec.lanes = 8 : i64} {
// CHECK-NEXT:    func.func @double(%arg0: memref<20xf32>
// CHECK-NEXT:      %[[X:.*]] = exec.alloc "activation" : memref<20xf32>
// CHECK-NEXT:      exec.copy %[[X]] from %arg0
// CHECK-NEXT:      exec.copy %arg0 from %[[X]]
// CHECK-NEXT:      return

// ONE-NOT: exec.lanes

// TABLE:       function double: arena0 of 128 bytes (device); 8 lanes, from one to the next arg0+128{{$}}
// TABLE-NEXT:  0 compute: copy read src=arg0[0]:20f32 write dst=arena0[0]:20f32
// TABLE-NEXT:  1 compute: copy read src=arena0[0]:20f32 write dst=arg0[0]:20f32
func.func @double(%a: memref<20xf32>) {
  %x = exec.alloc "activation" : memref<20xf32>
  exec.copy %x from %a : memref<20xf32> {id = 0 : i32, rows = 1, cols = 20, src_ld = 20, dst_ld = 20} : memref<20xf32>
  exec.copy %a from %x : memref<20xf32> {id = 1 : i32, rows = 1, cols = 20, src_ld = 20, dst_ld = 20} : memref<20xf32>
  return
}
