// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=x86-64' | FileCheck %s
// What only some processors have that else have no more than AVX.
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=bdver2' | FileCheck %s --check-prefix=OLD
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=tremont' | FileCheck %s --check-prefix=SMALL

// CHECK:      exec.manifest = "{
// CHECK-SAME:   \22config\22: \22{\\\22architectures\\\22:[\\\22GPT2LMHeadModel\\\22]
// CHECK-SAME:   \22optimizer\22: \22adamw\22
// CHECK-SAME:   \22strategy\22: \22serial\22
// CHECK-SAME:   \22cpu\22: \22x86-64\22

// OLD: \22fma4\22{{.*}}\22tbm\22{{.*}}\22xop\22
// SMALL: \22gfni\22{{.*}}\22movbe\22
