// A tensor of a checkpoint may have several parameters, which fill its rows.
// RUN: rm -rf %t && mkdir %t && cd %t
// RUN: python3 -m optimus.models gpt_neox --layers 1 --hidden 8 --heads 2 --seq 4 --vocab 16 --batch 2 -o good.mlir
// RUN: optimus-compile good.mlir --mesh row:1,col:2 --strategy summa --compile-to place -o place.mlir
// RUN: optimus-compile good.mlir -o good.so
// RUN: optimus-run inspect good.so --json | FileCheck %s --check-prefix=JSON
// JSON: "name": "gpt_neox.layers.0.attention.query_key_value.key.weight"
// JSON: "saved": {
// JSON-NEXT: "file": "model",
// JSON-NEXT: "name": "gpt_neox.layers.0.attention.query_key_value.weight",
// JSON-NEXT: "packed": {
// JSON-NEXT: "begin": 32,
// JSON-NEXT: "row": 96
// JSON: "name": "exp_avg.gpt_neox.layers.0.attention.query_key_value.weight",

// RUN: sed 's/row = 96, begin = 32>/row = 96, begin = 31>/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: error: argument {{[0-9]+}}: expected the parameters in 'gpt_neox.layers.0.attention.query_key_value.weight' to fill its rows, each element once; 'gpt_neox.layers.0.attention.query_key_value.key.weight' begins at 31, expected 32
// RUN: sed 's/query_key_value.weight", .24, 8., row = 96, begin = 64>/query_key_value.weight", [48, 4], row = 96, begin = 64>/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: each element once; found #optimus.packed<"gpt_neox.layers.0.attention.query_key_value.weight", [48, 4], row = 96, begin = 64> beside #optimus.packed<{{.*}}[24, 8]
// RUN: sed 's/query_key_value.weight", .24, 8., row = 96/query_key_value.weight", [26, 8], row = 104/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=SHORT
// SHORT: each element once; they have 96 of 104 elements
// RUN: sed 's/packed<"gpt_neox.layers.0.attention.query_key_value.weight"/packed<"embed_out.weight"/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=TAKEN
// TAKEN: the parameters in 'embed_out.weight' to fill its rows, each element once; a parameter has this name
// RUN: sed 's/query_key_value.weight", .24, 8., row = 96, begin = 64>/query_key_value.weight", [12, 8], row = 96, begin = 64>/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=LOCAL
// LOCAL: error: 'func.func' op parameter 'gpt_neox.layers.0.attention.query_key_value.value.weight' (argument {{[0-9]+}}): expected optimus.packed to have rows with as many of its elements each, found #optimus.packed
