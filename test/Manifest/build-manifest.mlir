// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-opt %t.mlir --optimus-pipeline='to=place' --optimus-build-manifest='strategy=serial optimizer=adamw mcpu=x86-64' | FileCheck %s

// CHECK:      exec.manifest = "{
// CHECK-SAME:   \22optimizer\22: \22adamw\22
// CHECK-SAME:   \22strategy\22: \22serial\22
// CHECK-SAME:   \22cpu\22: \22x86-64\22
