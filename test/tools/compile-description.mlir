// What the runtime would refuse of a library's manifest, or take as it is not
// meant, is refused before any phase runs, wherever compilation starts.
// RUN: rm -rf %t && mkdir %t && cd %t
// RUN: python3 -m optimus.models gpt2 --layers 1 --hidden 8 --heads 2 --seq 4 --vocab 16 --batch 2 -o good.mlir
// RUN: optimus-compile good.mlir --mesh row:1,col:2 --strategy summa --dump-phases-to phases --compile-to place -o place.mlir

// RUN: sed 's/module attributes.*/module {/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=MODEL
// MODEL: bad.mlir:1:1: error: expected an integer 'batch' in the module's attribute 'optimus.model', which a library's manifest needs; write {optimus.model = {batch =
// RUN: sed 's/batch = 2/batch = 3/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: 'func.func' op argument 16: expected tokens of [batch, sequence] = [3, 4], as optimus.model says, found [2, 4]
// RUN: sed 's/optimus.init = #optimus.init<ones>, //' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=INIT
// INIT: error: 'func.func' op parameter 'h.0.ln_1.weight' (argument 2): expected optimus.init, the values that training starts from; write #optimus.init<zeros>, #optimus.init<ones> or #optimus.init<normal, stddev = 0.02, stream = N>

// A program need not name its dimensions so.
// RUN: sed -e 's/vocabulary = 16/vocabulary = 17/' -e 's/"vocabulary"/"words"/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: sed -e 's/vocabulary = 16/vocabulary = 17/' -e 's/"vocabulary"/"words"/g' phases/06-fuse.mlir > bad.mlir
// RUN: not optimus-compile --compile-from fuse bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=TABLE
// TABLE: gpt2.py:{{[0-9]+}}:0: error: embedded: 'optimus.embedding' op expected a table of at least 17 rows, the vocabulary of optimus.model, found 16: other tokens would have none

// Device programs, too.
// RUN: sed 's/vocabulary = 16/vocabulary = 17/' phases/07-exec.mlir > bad.mlir
// RUN: not optimus-compile --compile-from exec bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=EXEC
// EXEC: error: 'func.func' op parameter 'wte.weight' (argument 0): expected a dimension "vocabulary" of at least 17, the vocabulary of optimus.model, found 16
// RUN: sed 's/batch = 2 : i64/batch = -2 : i64/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: {{.*}}A1: expected optimus.model to have an i64 'batch' from 1 to 2147483647, found -2 : i64
// RUN: sed 's/array<i64: 24>/array<i64: 23>/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: error: 'func.func' op parameter 'h.0.attn.c_attn.bias' (argument 6): expected optimus.hf_shape to have as many elements as [3, 2, 4], found [23]
// RUN: sed 's/of = "wpe.weight"/of = "wpe.weigth"/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=OWNER
// OWNER: error: 'func.func' op argument {{[0-9]+}}: expected 'exp_avg:wpe.weigth' to belong to a parameter of the function; there is no parameter 'wpe.weigth'; did you mean 'wpe.weight'?
// Functions that share a buffer say the same of it.
// RUN: sed '0,/role = "loss_sum", lifetime = call/s//role = "loss_sum", lifetime = state/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=AGREE
// AGREE: error: 'func.func' op argument {{[0-9]+}} ('loss_sum'): expected #optimus.buffer<role = "loss_sum", lifetime = state>, as in @train_step, found #optimus.buffer<role = "loss_sum", lifetime = call>
// RUN: sed 's/exec.access = "read", //' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=ACCESS
// ACCESS: error: argument {{[0-9]+}} has no 'exec.access' of a bound argument; run --optimus-to-exec first
// RUN: sed 's/"ln_f.bias"/"lr"/g' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=TAKEN
// TAKEN: error: argument {{[0-9]+}} is called 'lr' as the parameter is; give the parameter another name
// RUN: sed 's/optimus.param = "ln_f.bias"/optimus.param = "ln_f.weight"/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'func.func' op argument 16: argument 15 is the parameter 'ln_f.weight', too
// RUN: sed 's/optimizer = "adamw"/optimiser = "adamw"/' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: error: 'bad.mlir': optimus.compilation has the unknown member 'optimiser'; did you mean 'optimizer'?
// RUN: sed 's/tensor<3x1x4xf32, #ccl.local<[[]3, 2, 4[]]/tensor<3x1x4xf32, #ccl.local<[3, 3, 4]/g' place.mlir > bad.mlir
// RUN: not optimus-compile --compile-from place bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: 'func.func' op argument 6: expected 2 parts that cover the extent 3 of dimension 1, found 'tensor<3x1x4xf32, #ccl.local<[3, 3, 4]

// Any other function is exported, too. It is of what buffers hold, says what it
// is passed, and is there.
// RUN: sed 's/^  func.func @loss/  func.func @helper(%%x: f64) -> f64 { return %%x : f64 }\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=F64
// RUN: not optimus-compile bad.mlir --compile-to=exec 2>&1 | FileCheck %s --check-prefix=F64
// F64-NOT: internal
// F64: bad.mlir:2:3: error: expected @helper to have tensors of f32, bf16, f16 or i32 with a static shape and at least one element, found argument 0 of type 'f64'
// RUN: sed 's/^  func.func @loss/  func.func @helper(%%x: tensor<4xf64>) -> tensor<4xf64> { return %%x : tensor<4xf64> }\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=WIDE
// WIDE-NOT: internal
// WIDE: error: expected @helper to have tensors of {{.*}}, found argument 0 of type 'tensor<4xf64>'
// RUN: sed 's/^  func.func @loss/  func.func @helper() -> tensor<i8> { %%x = arith.constant dense<0> : tensor<i8> return %%x : tensor<i8> }\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=NARROW
// NARROW: error: expected @helper to have tensors of {{.*}}, found result 0 of type 'tensor<i8>'
// RUN: sed 's/^  func.func @loss/  func.func private @helper(tensor<4xf32>) -> tensor<4xf32>\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=NO-BODY
// NO-BODY: error: expected @helper to have a body of one block, found 0; nothing is called: remove it
// RUN: sed 's/^  func.func @loss/  func.func @helper(%%x: tensor<4xf32>) -> tensor<4xf32> { llvm.br ^next\n  ^next: return %%x : tensor<4xf32> }\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=BLOCKS
// BLOCKS: error: expected @helper to have a body of one block, found 2
// RUN: sed 's/^  func.func @loss/  func.func @helper(%%x: tensor<4xf32>) -> tensor<4xf32> { return %%x : tensor<4xf32> }\n&/' good.mlir > bad.mlir
// RUN: not optimus-compile bad.mlir -o x.so 2>&1 | FileCheck %s --check-prefix=UNBOUND
// UNBOUND-NOT: internal
// UNBOUND: error: {{.*}}argument 0: expected 'optimus.param' or 'optimus.binding', by which the runtime passes it to @helper
