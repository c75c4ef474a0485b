// The manifest lies in the library as text (docs/manifest.md).
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-compile %t.mlir --mcpu=x86-64-v3 -o %t.so
// RUN: llvm-strings %t.so | FileCheck %s
// Options that change the program change source_hash, those that change the
// machine do not; model_hash stays with the parameters and the function.
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 4 -o %t.batch.mlir
// RUN: optimus-compile %t.mlir --mcpu=x86-64 -o %t.machine.so
// RUN: optimus-compile %t.batch.mlir --mcpu=x86-64 -o %t.batch.so
// RUN: llvm-strings %t.so | grep _hash > %t.hashes
// RUN: llvm-strings %t.machine.so | grep _hash | diff %t.hashes -
// RUN: llvm-strings %t.batch.so | grep _hash > %t.batch.hashes
// RUN: cat %t.hashes %t.batch.hashes | FileCheck %s --check-prefix=HASH

// HASH:      "model_hash": "[[MODEL:[0-9a-f]+]]"
// HASH-NEXT: "source_hash": "[[SOURCE:[0-9a-f]+]]"
// HASH-NEXT: "model_hash": "[[MODEL]]"
// HASH-NOT:  [[SOURCE]]

// Parameters come first, then what belongs to each of them, then the rest.
// CHECK:      "buffers": [
// CHECK:      "decay": true,
// CHECK-NEXT: "init": {
// CHECK-NEXT: "kind": "normal",
// CHECK-NEXT: "stddev": 0.02
// CHECK-NEXT: "stream": 0
// CHECK:      "lifetime": "parameter",
// CHECK:      "name": "wte.weight",
// CHECK-NEXT: "role": "parameter",
// CHECK:      "file": "model",
// CHECK-NEXT: "name": "wte.weight",
// CHECK:      "name": "h.0.attn.c_attn.weight",
// A vector is not decayed, though the program sees several dimensions.
// CHECK:      "decay": false,
// CHECK:      "local_shape": [
// CHECK:      "name": "h.0.attn.c_attn.bias",
// CHECK:      "name": "h.0.attn.c_attn.bias",
// CHECK-NEXT: "shape": [
// CHECK-NEXT: 96
// CHECK:      "lifetime": "state",
// CHECK:      "name": "exp_avg:wte.weight",
// CHECK-NEXT: "of": 0,
// CHECK-NEXT: "role": "exp_avg",
// CHECK:      "file": "optimizer",
// CHECK-NEXT: "name": "exp_avg.wte.weight",
// CHECK:      "type": "f32"
// CHECK:      "name": "exp_avg_sq:wte.weight",
// CHECK:      "lifetime": "call",
// CHECK:      "name": "grad:wte.weight",
// CHECK-NOT:  "saved"
// CHECK:      "name": "exp_avg:wpe.weight",
// CHECK-NEXT: "of": 1,
// CHECK:      "filled_by": "data",
// CHECK:      "name": "tokens",
// CHECK:      "type": "i32"
// CHECK:      "name": "targets",
// CHECK:      "filled_by": "host",
// CHECK:      "name": "lr",
// CHECK:      "name": "grad_norm",
// CHECK:      "format": 3,
// CHECK:      "functions": [
// CHECK:      "arena_bytes": {{[0-9]+}},
// CHECK:      "access": "update",
// CHECK-NEXT: "buffer": 0
// CHECK:      "access": "read",
// CHECK:      "access": "write",
// CHECK:      "entry": {
// CHECK-NEXT: "batch": 2,
// CHECK-NEXT: "kind": "train",
// CHECK-NEXT: "sequence": 16
// CHECK:      "name": "train_step",
// CHECK-NOT:  "access": "update",
// CHECK:      "name": "eval_step",
// CHECK:      "access": "write",
// CHECK-NEXT: "buffer": {{[0-9]+}},
// CHECK-NEXT: "rounding": {{[0-9.]+}}
// CHECK:      "name": "grad_step"
// CHECK:      "batch": 2,
// CHECK-NEXT: "sequence": 16,
// CHECK-NEXT: "vocabulary": 64
// CHECK:      "model_hash": "{{[0-9a-f]+}}"
// CHECK:      "source_hash": "{{[0-9a-f]+}}"
// CHECK-NEXT: "strategy": "serial",
// CHECK:      "cpu": "x86-64-v3",
// CHECK-NEXT: "features": [
// CHECK:      "avx2",
// CHECK-NOT:  "avx512f"
