//===- OptimusOps.td - Operations of the optimus dialect ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPS
#define OPTIMUS_DIALECT_OPTIMUS_OPS

include "optimus/Dialect/Optimus/IR/OptimusAttentionOps.td"
include "optimus/Dialect/Optimus/IR/OptimusNormOps.td"
include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"
include "optimus/Dialect/Optimus/IR/OptimusOptimizerOps.td"
include "optimus/Dialect/Optimus/IR/OptimusPrecisionOps.td"
include "optimus/Dialect/Optimus/IR/OptimusRandomOps.td"

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

def Optimus_MeshOp : Optimus_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "The mesh of devices a program runs on";
  let description = [{
    Names the axes and their sizes. Ranks are numbered with the first axis
    slowest: on the mesh below, rank 4 has index 1 on `row` and 1 on `col`.

    ```mlir
    optimus.mesh @mesh <["row" = 2, "col" = 3]>
    ```

    Constraints: (C1) sizes are positive; (C2) names are distinct; (C3) a
    module holds one mesh at most; (C4) there are at most 65,536 ranks.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<Optimus_MeshAxisAttr, "array of mesh axes">:$axes);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kMaxRanks = ::optimus_support::kMaxRanks;
    ::llvm::SmallVector<MeshAxisAttr> getAxisList();
    /// The size of an axis, or nothing where the mesh has no such axis.
    std::optional<int64_t> getAxisSize(::llvm::StringRef axis);
    /// The position of an axis in the mesh's order.
    std::optional<int64_t> getAxisIndex(::llvm::StringRef axis);
    int64_t getNumRanks();
    /// The product of the sizes of some axes, all of which must exist. Of a mesh
    /// that is not verified yet, it and the number of ranks stop above kMaxRanks.
    int64_t getProduct(::llvm::ArrayRef<::llvm::StringRef> axes);
  }];
}

//===----------------------------------------------------------------------===//
// Products and elementwise operations
//===----------------------------------------------------------------------===//

def Optimus_MatmulOp : Optimus_DifferentiableOp<"matmul", [
    Optimus_Precisions<["Narrow", "Narrow", "Full", "Any", "Any"], ["Any"]>,
    Optimus_SymbolicValue, Optimus_MovesInPanels, Optimus_Sum, Optimus_Work,
    AttrSizedOperandSegments, Optimus_ResultTypes<[[{
    detail::getProductType(adaptor.getA(), adaptor.getB(), adaptor.getContracting(),
                           adaptor.getTransposeA(), adaptor.getTransposeB())}]]>]> {
  let summary = "A product of matrices whose rows and columns are groups of dimensions";
  let description = [{
    `A` has dimensions [M…, K…] and `B` [K…, N…] with `contracting` dimensions
    in K; the result has [M…, N…]. With `transpose_a`, `A` is [K…, M…]; with
    `transpose_b`, `B` is [N…, K…]. Then
    `result = (A·B + bias + residual) * scale`, where `bias` has dimensions
    [N…] and `residual` and `scale` those of the result. A model is written
    with plain products; `--optimus-fuse` makes the addends and factors
    operands, once it is known which products are local.

    ```mlir
    %y = optimus.matmul %x, %w
      : (tensor<2x8x16xf32>, tensor<16x3x4x4xf32>) -> tensor<2x8x3x4x4xf32>
    %dw = optimus.matmul %x, %dy {contracting = 2 : i64, transpose_a}
      : (tensor<2x8x16xf32>, tensor<2x8x3x4x4xf32>) -> tensor<16x3x4x4xf32>
    ```

    Products are summed in f32; a narrow result is rounded once, after bias, residual
    and scale.

    Constraints: (C1) both operands have at least `contracting` dimensions, one at least;
    (C2) the contracted dimensions agree; (C3) the result's dimensions are M
    then N; (C4) bias, residual and scale have the shapes above; (C5) A and B have one
    element type, the result has it or f32, and bias, residual and scale have the
    result's or f32.
  }];
  let arguments = (ins Optimus_FloatTensor:$a, Optimus_FloatTensor:$b,
                       Optional<Optimus_FloatTensor>:$bias,
                       Optional<Optimus_FloatTensor>:$residual,
                       Optional<Optimus_FloatTensor>:$scale,
                       DefaultValuedAttr<I64Attr, "1">:$contracting,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = [{
    $a `,` $b (`bias` `(` $bias^ `)`)? (`residual` `(` $residual^ `)`)?
    (`scale` `(` $scale^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b,
                   CArg<"int64_t", "1">:$contracting,
                   CArg<"bool", "false">:$transposeA,
                   CArg<"bool", "false">:$transposeB)>,
    OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, "int64_t":$contracting,
                   "bool":$transposeA, "bool":$transposeB), [{
      build($_builder, $_state, detail::getProductType(a, b, contracting, transposeA, transposeB),
            a, b, contracting, transposeA, transposeB);
    }]>
  ];
  let extraClassDeclaration = [{
    /// The number of dimensions in each group.
    int64_t getNumM();
    int64_t getNumN();
    int64_t getNumK() { return getContracting(); }
    /// The dimensions of A (of B) in each group, in order.
    ::llvm::SmallVector<int64_t> getMDimsOfA();
    ::llvm::SmallVector<int64_t> getKDimsOfA();
    ::llvm::SmallVector<int64_t> getKDimsOfB();
    ::llvm::SmallVector<int64_t> getNDimsOfB();
  }];
}

class Optimus_BroadcastingOp<string mnemonic, list<Trait> traits = []>
    : Optimus_DifferentiableOp<mnemonic, !listconcat(traits,
        [Optimus_SymbolicValue, Optimus_ResultTypes<["adaptor.getLhs()"]>,
         Optimus_Precisions<["Same", "SameOrFull"], ["Same"]>])> {
  let arguments = (ins Optimus_FloatTensor:$lhs, Optimus_FloatTensor:$rhs);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Optimus_AddOp : Optimus_BroadcastingOp<"add", [Optimus_Sum]> {
  let summary = "The sum, the right side repeated over leading dimensions";
  let description = [{
    The dimensions of `rhs` are the last ones of `lhs`.

    ```mlir
    %z = optimus.add %x, %bias : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) the result has the shape of lhs; (C2) the shape of rhs
    ends that of lhs; (C3) lhs and the result have one element type, and rhs has it
    or f32.
  }];
  let hasFolder = 1;
}

def Optimus_MulOp : Optimus_BroadcastingOp<"mul"> {
  let summary = "The elementwise product, the right side repeated over leading dimensions";
  let description = [{
    The dimensions of `rhs` are the last ones of `lhs`.

    ```mlir
    %z = optimus.mul %x, %gamma : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) the result has the shape of lhs; (C2) the shape of rhs
    ends that of lhs; (C3) lhs and the result have one element type, and rhs has it
    or f32.
  }];
  let hasFolder = 1;
}

def Optimus_SumLeadingOp : Optimus_TensorOp<"sum_leading", [
    Optimus_Precisions<["Any"], ["Full"]>,
    Optimus_SymbolicValue, Optimus_Sum]> {
  let summary = "The sum over all leading dimensions that the result lacks";
  let description = [{
    The gradient of repeating a tensor over leading dimensions, as
    `optimus.add` and `optimus.mul` do with their right side. Summed in f32,
    whatever the element types are.

    ```mlir
    %db = optimus.sum_leading %dy : (tensor<2x8x16xf32>) -> tensor<16xf32>
    ```

    Constraints: (C1) the result's shape ends the operand's.
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
}

def Optimus_GeluOp : Optimus_DifferentiableOp<"gelu", [
    Optimus_Precisions<["Same"], ["Same"]>,
    Optimus_Facts<>, SameOperandsAndResultType]> {
  let summary = "GELU, in its tanh form or exact";
  let description = [{
    `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`, as GPT-2 has it, or, if
    `exact`, `x/2 · (1 + erf(x/√2))`, as BERT has it; elementwise, and 0 at 0,
    so that padding stays zero.

    ```mlir
    %y = optimus.gelu %x : tensor<2x8x64xf32>
    %z = optimus.gelu %x {exact} : tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins Optimus_FloatTensor:$input, UnitAttr:$exact);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_GeluWithSlopeOp : Optimus_TensorOp<"gelu_with_slope", [
    Optimus_Precisions<["Same"], ["Same", "Same"]>,
    Optimus_SymbolicValue, SameOperandsAndResultType]> {
  let summary = "GELU and its derivative in one pass";
  let description = [{
    `result` is that of `optimus.gelu`, `slope` its derivative at the input.
    Training keeps the slope: the gradient is then one product, which can be an
    epilogue of the matrix product behind its other factor.

    ```mlir
    %y, %slope = optimus.gelu_with_slope %x : tensor<2x8x64xf32>
    ```
  }];
  let hasCanonicalizer = 1;
  let arguments = (ins Optimus_FloatTensor:$input, UnitAttr:$exact);
  let results = (outs Optimus_FloatTensor:$result, Optimus_FloatTensor:$slope);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_SwigluOp : Optimus_DifferentiableOp<"swiglu", [
    Optimus_Precisions<["Same", "Same"], ["Same"]>,
    Optimus_Facts<>, SameOperandsAndResultType]> {
  let summary = "silu(gate)·up";
  let description = [{
    With silu(x) = x/(1 + e^(−x)), elementwise: the middle of a gated feed-forward
    part. 0 where up is 0, so that padding stays zero.

    ```mlir
    %y = optimus.swiglu %gate, %up : tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins Optimus_FloatTensor:$gate, Optimus_FloatTensor:$up);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate)";
}

def Optimus_SwigluGradOp : Optimus_TensorOp<"swiglu_grad", [
    Optimus_Precisions<["Same", "Same", "Same"], ["Same", "Same"]>,
    SameOperandsAndResultType]> {
  let summary = "The gradient of silu(gate)·up, in one pass";
  let description = [{
    With σ = 1/(1 + e^(−gate)): `dgate = dy·up·σ·(1 + gate·(1 − σ))` and
    `dup = dy·gate·σ`.

    ```mlir
    %dgate, %dup = optimus.swiglu_grad %dy, %gate, %up : tensor<2x8x64xf32>
    ```
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$gate, Optimus_FloatTensor:$up);
  let results = (outs Optimus_FloatTensor:$dgate, Optimus_FloatTensor:$dup);
  let assemblyFormat = "$dy `,` $gate `,` $up attr-dict `:` type($dy)";
}

//===----------------------------------------------------------------------===//
// Embedding, head and loss
//===----------------------------------------------------------------------===//

def Optimus_EmbeddingOp : Optimus_DifferentiableOp<"embedding", [
    Optimus_Precisions<["Full", "Any"], ["Any"]>,
    Optimus_Facts<["getStandIn"]>, Optimus_Rounding, TokenTableOpInterface]> {
  let summary = "Rows of a table, chosen by tokens";
  let description = [{
    `result[…, :] = table[tokens[…], :]`. Where the table holds some rows only,
    other tokens give zeros, so that the parts add up. So do negative ones, which are none,
    as the position of an empty slot of a cache.

    Row `pad`, where there is one, is looked up like any other, but look-ups of
    it give it no gradient, as PyTorch's `padding_idx` has it.

    ```mlir
    %x = optimus.embedding %table, %tokens : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) table is [v, h]; (C2) the result is the shape of tokens
    followed by h; (C3) pad is one of the whole table's rows.
  }];
  let arguments = (ins Optimus_FloatTensor:$table, Optimus_IndexTensor:$tokens,
                       OptionalAttr<I64Attr>:$pad);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$table `,` $tokens attr-dict `:` functional-type(operands, results)";
}

def Optimus_EmbeddingGradOp : Optimus_TensorOp<"embedding_grad", [
    Optimus_Precisions<["Any", "Any", "Full"], ["Full"]>,
    Optimus_SymbolicValue, Optimus_Sum]> {
  let summary = "The gradient of an embedding table";
  let description = [{
    Adds row `dy[…, :]` to row `tokens[…]` of `accumulate`, or of zeros, in the
    order of the tokens, except where the token is `pad`.

    ```mlir
    %dtable = optimus.embedding_grad %dy, %tokens accumulate(%dhead)
      : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<256x16xf32>) -> tensor<256x16xf32>
    ```

    Constraints: (C1) dy is the shape of tokens followed by h; (C2) the result
    is [v, h]; (C3) accumulate has the result's shape; (C4) pad is one of the
    whole result's rows.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_IndexTensor:$tokens,
                       Optional<Optimus_F32Tensor>:$accumulate,
                       OptionalAttr<I64Attr>:$pad);
  let results = (outs Optimus_F32Tensor:$result);
  let assemblyFormat = [{
    $dy `,` $tokens (`accumulate` `(` $accumulate^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Optimus_LengthsOp : Optimus_TensorOp<"lengths", [Optimus_RowStatistics<[0]>, Optimus_Facts<>]> {
  let summary = "How many tokens of each sequence come before its padding";
  let description = [{
    One more than the position of the last token other than `pad`, and 1 at
    least, so that no sequence is empty. With `targets`, a position whose target
    is not negative counts too: its token was another one before it was hidden,
    even where `pad` stands for it.

    ```mlir
    %lengths = optimus.lengths %tokens targets(%targets) {pad = 0 : i64} : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2xi32>
    ```

    Constraints: (C1) tokens is [b, s] and the result [b]; (C2) targets has the
    shape of tokens.
  }];
  let arguments = (ins Optimus_IndexTensor:$tokens,
                       Optional<Optimus_IndexTensor>:$targets, Optimus_TokenAttr:$pad);
  let results = (outs Optimus_IndexTensor:$result);
  let assemblyFormat = [{
    $tokens (`targets` `(` $targets^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Optimus_RowOp : Optimus_DifferentiableOp<"row"> {
  let summary = "One row of a table";
  let description = [{
    `result = table[index, :]`: what an embedding is where every token is the
    same.

    ```mlir
    %x = optimus.row %table {index = 0 : i64} : (tensor<2x16xf32>) -> tensor<16xf32>
    ```

    Constraints: (C1) table is [v, h] and the result [h]; (C2) the index is
    at least 0 and below v.
  }];
  let arguments = (ins Optimus_FloatTensor:$table, I64Attr:$index);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$table attr-dict `:` functional-type(operands, results)";
}

def Optimus_RowGradOp : Optimus_TensorOp<"row_grad"> {
  let summary = "The gradient of a table of which one row is used";
  let description = [{
    `dy` in row `index`, zeros elsewhere.

    ```mlir
    %dtable = optimus.row_grad %dy {index = 0 : i64} : (tensor<16xf32>) -> tensor<2x16xf32>
    ```

    Constraints: C1 and C2 of `optimus.row`.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, I64Attr:$index);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$dy attr-dict `:` functional-type(operands, results)";
}

def Optimus_HeadOp : Optimus_TensorOp<"head", [
    Optimus_Precisions<["Narrow", "Narrow", "Full"], ["Full"]>,
    Optimus_Facts<[]>, Optimus_Work, TokenTableOpInterface,
    Optimus_ResultTypes<["detail::getLogitsType(adaptor.getH(), adaptor.getTable())"]>]> {
  let summary = "Output head: the logits of tokens";
  let description = [{
    `logits = h·tableᵀ + bias`, in f32 whatever h and the table are. Padding of the
    vocabulary is −∞: so it is never the likeliest token, nor changes a softmax.
    A cross-entropy of these logits is `optimus.head_loss`, which never holds them whole.

    ```mlir
    %logits = optimus.head %h, %table
      : (tensor<2x8x16xf32>, tensor<256x16xf32>) -> tensor<2x8x256xf32>
    ```

    Constraints: (C1) h ends with the table's second dimension; (C2) the table has rank 2;
    (C3) the bias, which may be left out, is the table's first dimension; (C4) the logits are
    h with the table's first dimension for its last; (C5) h and the table have one element type.
  }];
  let arguments = (ins Optimus_FloatTensor:$h, Optimus_FloatTensor:$table,
                       Optional<Optimus_F32Tensor>:$bias);
  let results = (outs Optimus_F32Tensor:$logits);
  let assemblyFormat = [{
    $h `,` $table (`bias` `(` $bias^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_BestOp : Optimus_TensorOp<"best", [Optimus_Precisions<["Full"], ["Full"]>]> {
  let summary = "The highest logits of rows, and their tokens";
  let description = [{
    `result[…, i]` is the i-th highest of `logits[…, :]`, and `result[…, count + i]` its token, as
    a number: so a few numbers say what follows a text. Of equal logits the lowest token comes
    first. A logit that is no number counts as infinite; −∞ counts as none, and where fewer are
    left than `count`, there are −∞ and −1.

    ```mlir
    %best = optimus.best %logits {count = 4 : i64} : (tensor<8x1x256xf32>) -> tensor<8x1x8xf32>
    ```

    Tokens of texts may be sharded, the vocabulary not. Constraints: (C1) the result has the
    shape of logits with 2·count for its last dimension; (C2) count is at most the vocabulary,
    and that at most 2^24: an f32 has each token.
  }];
  let arguments = (ins Optimus_F32Tensor:$logits, ConfinedAttr<I64Attr, [IntPositive]>:$count);
  let results = (outs Optimus_F32Tensor:$result);
  let assemblyFormat = "$logits attr-dict `:` functional-type(operands, results)";
}

def Optimus_LogProbabilitiesOp : Optimus_TensorOp<"log_probabilities", [
    Optimus_Precisions<["Full", "Any"], ["Full"]>, Optimus_RowStatistics<[0]>]> {
  let summary = "Logarithms of the probabilities of given tokens";
  let description = [{
    `result[…] = logits[…, t] − log Σ exp(logits[…, :])` in nats, with t = targets[…], and 0
    where that is negative.

    ```mlir
    %p = optimus.log_probabilities %logits, %targets
      : (tensor<8x1x256xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
    ```

    Tokens may be sharded, the vocabulary not. Constraints: (C1) logits have the dimensions
    of targets and one more; (C2) the result has the shape of targets.
  }];
  let arguments = (ins Optimus_F32Tensor:$logits, Optimus_IndexTensor:$targets);
  let results = (outs Optimus_F32Tensor:$result);
  let assemblyFormat = "$logits `,` $targets attr-dict `:` functional-type(operands, results)";
}

def Optimus_HeadLossOp : Optimus_DifferentiableOp<"head_loss", [
    Optimus_Precisions<["Narrow", "Narrow", "Any", "Full"], ["Full", "Full"]>,
    Optimus_Facts<["getIncidentalAttributes"]>, Optimus_SymbolicValue,
    Optimus_OperandShards, TokenTableOpInterface,
    Optimus_ResultTypes<[Optimus_ScalarType.type, Optimus_ScalarType.type]>]> {
  let summary = "Output head and cross-entropy, summed over real tokens";
  let description = [{
    With logits = h·tableᵀ + bias, `loss_sum = Σ (log Σ exp(logits) − logits[target])`
    in nats over the tokens whose target is at least 0, and `real_count` their
    number. Logits are made and used `chunk` tokens at a time, never whole.

    ```mlir
    %loss_sum, %real_count = optimus.head_loss %h, %table, %targets
      : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
    ```

    Constraints: (C1) h is the shape of targets followed by the table's second
    dimension; (C2) the table has rank 2; (C3) the bias, which may be left
    out, is the table's first dimension; (C5) there are at most 4096 chunks, and
    the logits of one have at most 2^48 elements; (C6) h and the table have one element
    type. Logits are f32, whatever that is.
  }];
  let arguments = (ins Optimus_FloatTensor:$h, Optimus_FloatTensor:$table, Optimus_IndexTensor:$targets,
                       Optional<Optimus_F32Tensor>:$bias,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "512">:$chunk);
  let results = (outs Optimus_FloatScalar:$loss_sum, Optimus_FloatScalar:$real_count);
  let assemblyFormat = [{
    $h `,` $table `,` $targets (`bias` `(` $bias^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Optimus_HeadLossGradOp : Optimus_TensorOp<"head_loss_grad", [
    Optimus_Precisions<["Narrow", "Narrow", "Any", "Full"], ["Full", "Full", "Narrow", "Full", "Full"]>,
    Optimus_SymbolicValue, Optimus_OperandShards, TokenTableOpInterface,
    Optimus_ResultTypes<[Optimus_ScalarType.type, Optimus_ScalarType.type, "adaptor.getH()",
                         "detail::getF32Type(adaptor.getTable())", "adaptor.getBias()"]>]> {
  let summary = "Head and loss with the gradient of loss_sum, in one pass";
  let description = [{
    As `optimus.head_loss`, with `dh = dlogits·table`, `dtable = dlogitsᵀ·h` and,
    if there is a bias, dbias, the sum of dlogits over tokens, where dlogits = softmax(logits) − onehot(target) at
    real tokens and 0 elsewhere.

    ```mlir
    %loss_sum, %real_count, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets {chunk = 4 : i64}
      : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>)
    ```

    dlogits are rounded to the element type of h and the table before they are multiplied;
    dtable and dbias are f32.

    Constraints: C1 to C3, C5 and C6 of `optimus.head_loss`; (C4) dh, dtable and dbias have the
    shapes of h, table and bias, and dh has the element type of h; dbias is there if the bias is.
  }];
  let arguments = (ins Optimus_FloatTensor:$h, Optimus_FloatTensor:$table, Optimus_IndexTensor:$targets,
                       Optional<Optimus_F32Tensor>:$bias,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "512">:$chunk);
  let results = (outs Optimus_FloatScalar:$loss_sum, Optimus_FloatScalar:$real_count,
                      Optimus_FloatTensor:$dh, Optimus_F32Tensor:$dtable,
                      Optional<Optimus_F32Tensor>:$dbias);
  let assemblyFormat = [{
    $h `,` $table `,` $targets (`bias` `(` $bias^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasCanonicalizer = 1;
}

#endif // OPTIMUS_DIALECT_OPTIMUS_OPS
