// The manifest lies in the library as text (docs/manifest.md).
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 32 --heads 2 --seq 16 --vocab 64 --batch 2 -o %t.mlir
// RUN: optimus-compile %t.mlir --mcpu=x86-64-v3 -o %t.so
// RUN: llvm-strings %t.so | FileCheck %s
// Options that change the program change source_hash, those that change the
// machine do not; model_hash stays with the parameters.
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

// CHECK:      "functions": [
// CHECK:      "arena_bytes": {{[0-9]+}},
// CHECK:      "kind": "param"
// CHECK:      "kind": "exp_avg"
// CHECK:      "kind": "exp_avg_sq"
// CHECK:      "kind": "tokens"
// CHECK:      "kind": "targets"
// CHECK:      "name": "lr"
// CHECK:      "name": "grad_norm"
// CHECK:      "name": "train_step"
// CHECK:      "name": "eval_step"
// CHECK:      "kind": "grad",
// CHECK-NEXT: "rounding": {{[0-9.]+}}
// CHECK:      "name": "grad_step"
// CHECK:      "batch": 2,
// CHECK-NEXT: "sequence": 16,
// CHECK-NEXT: "vocabulary": 64
// CHECK:      "model_hash": "{{[0-9a-f]+}}"
// CHECK:      "decay": true,
// CHECK:      "kind": "normal",
// CHECK-NEXT: "stddev": 0.02
// CHECK-NEXT: "stream": 0
// CHECK:      "name": "wte.weight",
// CHECK:      "name": "h.0.attn.c_attn.weight",
// A vector is not decayed, though the program sees several dimensions.
// CHECK:      "decay": false,
// CHECK-NEXT: "hf_shape": [
// CHECK-NEXT: 96
// CHECK:      "local_shape": [
// CHECK:      "name": "h.0.attn.c_attn.bias",
// CHECK:      "shape": [
// CHECK:      "source_hash": "{{[0-9a-f]+}}"
// CHECK-NEXT: "strategy": "serial",
// CHECK:      "cpu": "x86-64-v3",
// CHECK-NEXT: "features": [
// CHECK:      "avx2",
// CHECK-NOT:  "avx512f"
