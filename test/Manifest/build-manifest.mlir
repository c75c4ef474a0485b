// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=x86-64' | FileCheck %s
// What only some processors have that else have no more than AVX.
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=bdver2' | FileCheck %s --check-prefix=OLD
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=tremont' | FileCheck %s --check-prefix=SMALL
// RUN: optimus-opt %t.mlir --optimus-pipeline='mesh=row:2,col:2 strategy=summa to=place' -o %t.placed.mlir
// RUN: optimus-opt %t.placed.mlir --optimus-build-manifest='mcpu=x86-64 tile=2,1' | FileCheck %s --check-prefix=TILE
// RUN: optimus-opt %t.placed.mlir --optimus-build-manifest='mcpu=x86-64 node-ranks=8' | FileCheck %s --check-prefix=CONSECUTIVE
// RUN: not optimus-opt %t.placed.mlir --optimus-build-manifest='mcpu=x86-64 tile=2,3' 2>&1 | FileCheck %s --check-prefix=MISFIT

// CHECK:      exec.manifest = "{
// CHECK-SAME:   \22config\22: \22{\\\22architectures\\\22:[\\\22GPT2LMHeadModel\\\22]
// CHECK-SAME:   \22optimizer\22: \22adamw\22
// CHECK-SAME:   \22strategy\22: \22serial\22
// CHECK-SAME:   \22cpu\22: \22x86-64\22

// TILE: \22placement\22: {{.*}}\22tile\22: {{.*}}2,{{.*}}1{{.*}}\22precision\22
// CONSECUTIVE: \22placement\22: {{.*}}\22consecutive\22: 8
// MISFIT: error: expected a tile that divides the mesh, one extent an axis; found [2, 3] of [2, 2]

// OLD: \22fma4\22{{.*}}\22tbm\22{{.*}}\22xop\22
// SMALL: \22gfni\22{{.*}}\22movbe\22
