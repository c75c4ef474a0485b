//===- OptimusOps.td - Operations of the optimus dialect ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPS
#define OPTIMUS_DIALECT_OPTIMUS_OPS

include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Optimus/IR/OptimusAttrs.td"
include "optimus/Dialect/Optimus/IR/OptimusInterfaces.td"

def Optimus_FloatTensor : RankedTensorOf<[F32]>;
def Optimus_IndexTensor : RankedTensorOf<[I32]>;
def Optimus_FloatScalar : TensorRankOf<[F32], [0]>;

class Optimus_Op<string mnemonic, list<Trait> traits = []>
    : Op<Optimus_Dialect, mnemonic, traits>;

/// An operation on whole tensors without side effects.
class Optimus_TensorOp<string mnemonic, list<Trait> traits = []>
    : Optimus_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface>], traits)> {
  let hasVerifier = 1;
}

class Optimus_DifferentiableOp<string mnemonic, list<Trait> traits = []>
    : Optimus_TensorOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)>;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

def Optimus_MeshOp : Optimus_Op<"mesh", [Symbol]> {
  let summary = "The mesh of devices a program runs on";
  let description = [{
    Names the axes and their sizes; ranks are numbered with the first axis
    slowest. A module holds at most one mesh.

    ```mlir
    optimus.mesh @mesh <["row" = 2, "col" = 2]>
    ```

    Constraints: (C1) sizes are positive; (C2) names are distinct.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<MeshAxisAttr> getAxisList();
    /// The size of an axis, or nothing where the mesh has no such axis.
    std::optional<int64_t> getAxisSize(::llvm::StringRef axis);
    /// The position of an axis in the mesh's order.
    std::optional<int64_t> getAxisIndex(::llvm::StringRef axis);
    int64_t getNumRanks();
    /// The product of the sizes of some axes, all of which must exist.
    int64_t getProduct(::llvm::ArrayRef<::llvm::StringRef> axes);
  }];
}

//===----------------------------------------------------------------------===//
// Products and elementwise operations
//===----------------------------------------------------------------------===//

def Optimus_MatmulOp : Optimus_DifferentiableOp<"matmul", [AttrSizedOperandSegments]> {
  let summary = "A product of matrices whose rows and columns are groups of dimensions";
  let description = [{
    `A` has dimensions [M…, K…] and `B` [K…, N…] with `contracting` dimensions
    in K; the result has [M…, N…]. With `transpose_a`, `A` is [K…, M…]; with
    `transpose_b`, `B` is [N…, K…]. Then
    `result = (A·B + bias + residual) * scale`, where `bias` has dimensions
    [N…] and `residual` and `scale` those of the result.

    ```mlir
    %y = optimus.matmul %x, %w
      : (tensor<2x8x16xf32>, tensor<16x3x4x4xf32>) -> tensor<2x8x3x4x4xf32>
    %dw = optimus.matmul %x, %dy {contracting = 2 : i64, transpose_a}
      : (tensor<2x8x16xf32>, tensor<2x8x3x4x4xf32>) -> tensor<16x3x4x4xf32>
    ```

    Constraints: (C1) both operands have at least `contracting` dimensions, one at least;
    (C2) the contracted dimensions agree; (C3) the result's dimensions are M
    then N; (C4) bias, residual and scale have the shapes above.
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
                   CArg<"bool", "false">:$transposeB)>
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

class Optimus_BroadcastingOp<string mnemonic> : Optimus_DifferentiableOp<mnemonic> {
  let arguments = (ins Optimus_FloatTensor:$lhs, Optimus_FloatTensor:$rhs);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def Optimus_AddOp : Optimus_BroadcastingOp<"add"> {
  let summary = "The sum, the right side repeated over leading dimensions";
  let description = [{
    The dimensions of `rhs` are the last ones of `lhs`.

    ```mlir
    %z = optimus.add %x, %bias : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) the result has the shape of lhs; (C2) the shape of rhs
    ends that of lhs.
  }];
}

def Optimus_MulOp : Optimus_BroadcastingOp<"mul"> {
  let summary = "The elementwise product, the right side repeated over leading dimensions";
  let description = [{
    As `optimus.add`, with the same constraints C1 and C2.
  }];
}

def Optimus_SumLeadingOp : Optimus_TensorOp<"sum_leading"> {
  let summary = "The sum over all leading dimensions that the result lacks";
  let description = [{
    The gradient of repeating a tensor over leading dimensions.

    ```mlir
    %db = optimus.sum_leading %dy : (tensor<2x8x16xf32>) -> tensor<16xf32>
    ```

    Constraints: (C1) the result's shape ends the operand's.
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}

def Optimus_GeluOp : Optimus_DifferentiableOp<"gelu", [SameOperandsAndResultType]> {
  let summary = "GELU in its tanh form";
  let description = [{
    `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_GeluWithSlopeOp : Optimus_TensorOp<"gelu_with_slope", [SameOperandsAndResultType]> {
  let summary = "GELU and its derivative in one pass";
  let description = [{
    What training keeps is the slope, so that the gradient is one product,
    which can ride on the matrix product that makes its other factor.
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result, Optimus_FloatTensor:$slope);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

//===----------------------------------------------------------------------===//
// Layer normalisation
//===----------------------------------------------------------------------===//

def Optimus_LayerNormOp : Optimus_DifferentiableOp<"layer_norm"> {
  let summary = "Layer normalisation over the last dimension";
  let description = [{
    `result = (x − mean) · rstd · gamma + beta` with
    `rstd = 1/√(variance + epsilon)`, the variance being the mean square
    deviation; `mean` and `rstd` are results for the gradient's sake.

    Constraints: (C1) result has the shape of x; (C2) mean and rstd lack the
    last dimension; (C3) gamma and beta are that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_FloatTensor:$gamma, Optimus_FloatTensor:$beta,
                       F64Attr:$epsilon);
  let results = (outs Optimus_FloatTensor:$result, Optimus_FloatTensor:$mean, Optimus_FloatTensor:$rstd);
  let assemblyFormat = "$x `,` $gamma `,` $beta attr-dict `:` functional-type(operands, results)";
}

def Optimus_LayerNormGradOp : Optimus_TensorOp<"layer_norm_grad"> {
  let summary = "The gradient of layer normalisation";
  let description = [{
    With x̂ = (x − mean)·rstd and dŷ = dy·gamma, over a row of n elements:
    `dx = rstd·(dŷ − Σdŷ/n − x̂·Σ(dŷ·x̂)/n) + residual`,
    `dgamma = Σ dy·x̂` and `dbeta = Σ dy` over all rows. `residual` is an
    optional gradient that reaches x on another path.

    Constraints: (C1) dy, x, residual and dx have one shape; (C2) mean and
    rstd lack its last dimension; (C3) gamma, dgamma, dbeta are it.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_FloatTensor:$mean,
                       Optimus_FloatTensor:$rstd, Optimus_FloatTensor:$gamma,
                       Optional<Optimus_FloatTensor>:$residual);
  let results = (outs Optimus_FloatTensor:$dx, Optimus_FloatTensor:$dgamma, Optimus_FloatTensor:$dbeta);
  let assemblyFormat = [{
    $dy `,` $x `,` $mean `,` $rstd `,` $gamma (`residual` `(` $residual^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

// The parts of a layer normalisation whose rows are cut among ranks.

def Optimus_RowMomentsOp : Optimus_TensorOp<"row_moments"> {
  let summary = "Mean and sum of squared deviations of each row's real elements";
  let description = [{
    For x [rows…, n] a [rows…, 2] of (mean, M2) over the real, unpadded
    elements of the local row; a row without real elements gives (0, 0).

    Constraints: (C1) the result is x's shape with the last dimension 2.
  }];
  let arguments = (ins Optimus_FloatTensor:$x);
  let results = (outs Optimus_FloatTensor:$moments);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Optimus_MergeMomentsOp : Optimus_TensorOp<"merge_moments"> {
  let summary = "Mean and reciprocal standard deviation from the moments of parts";
  let description = [{
    `moments` is [rows…, 2·parts]: (mean, M2) of each part in rank order; the
    parts have `counts` real elements. They are merged in that order by Chan's
    formula, which adds no squares of large means:
    `δ = mean_b − mean_a; mean = mean_a + δ·n_b/n; M2 = M2_a + M2_b + δ²·n_a·n_b/n`.

    Constraints: (C1) moments has 2 elements a row for each count; (C2) mean
    and rstd have its other dimensions.
  }];
  let arguments = (ins Optimus_FloatTensor:$moments, DenseI64ArrayAttr:$counts, F64Attr:$epsilon);
  let results = (outs Optimus_FloatTensor:$mean, Optimus_FloatTensor:$rstd);
  let assemblyFormat = "$moments attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormalizeOp : Optimus_TensorOp<"normalize"> {
  let summary = "(x − mean)·rstd·gamma + beta";
  let description = [{
    Padded elements come out zero because gamma and beta are zero there.

    Constraints: (C1) result has the shape of x; (C2) mean and rstd lack the
    last dimension; (C3) gamma and beta are it.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_FloatTensor:$mean, Optimus_FloatTensor:$rstd,
                       Optimus_FloatTensor:$gamma, Optimus_FloatTensor:$beta);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$x `,` $mean `,` $rstd `,` $gamma `,` $beta attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormGradSumsOp : Optimus_TensorOp<"norm_grad_sums"> {
  let summary = "The two sums of a row that a normalisation's gradient needs";
  let description = [{
    [rows…, 2] of (Σdŷ, Σdŷ·x̂) over the local row; padded elements add zero
    since gamma is zero there.

    Constraints: (C1) dy and x have one shape; (C2) the result is that shape
    with the last dimension 2.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_FloatTensor:$mean,
                       Optimus_FloatTensor:$rstd, Optimus_FloatTensor:$gamma);
  let results = (outs Optimus_FloatTensor:$sums);
  let assemblyFormat = "$dy `,` $x `,` $mean `,` $rstd `,` $gamma attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormGradApplyOp : Optimus_TensorOp<"norm_grad_apply"> {
  let summary = "A normalisation's dx from its row sums";
  let description = [{
    `dx = rstd·(dŷ − sums₀/size − x̂·sums₁/size) + residual`, zero at padded
    elements; `size` is the true extent of the whole row.

    Constraints: (C1) dy, x, residual and dx have one shape; (C2) sums has
    two elements a row.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_FloatTensor:$mean,
                       Optimus_FloatTensor:$rstd, Optimus_FloatTensor:$gamma, Optimus_FloatTensor:$sums,
                       Optional<Optimus_FloatTensor>:$residual, I64Attr:$size);
  let results = (outs Optimus_FloatTensor:$dx);
  let assemblyFormat = [{
    $dy `,` $x `,` $mean `,` $rstd `,` $gamma `,` $sums (`residual` `(` $residual^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_NormParamGradOp : Optimus_TensorOp<"norm_param_grad"> {
  let summary = "A normalisation's dgamma and dbeta";
  let description = [{
    `dgamma = Σ dy·x̂` and `dbeta = Σ dy` over all rows.

    Constraints: (C1) dy and x have one shape; (C2) mean and rstd lack its last
    dimension; (C3) dgamma and dbeta are that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_FloatTensor:$mean,
                       Optimus_FloatTensor:$rstd);
  let results = (outs Optimus_FloatTensor:$dgamma, Optimus_FloatTensor:$dbeta);
  let assemblyFormat = "$dy `,` $x `,` $mean `,` $rstd attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Optimus_AttentionOp : Optimus_DifferentiableOp<"attention"> {
  let summary = "Multi-head attention";
  let description = [{
    On qkv [b, s, 3, n, d]: softmax(q·kᵀ/√d)·v for each head, [b, s, n, d]; a
    position sees itself and earlier ones if `causal`. `lse` [b, n, s] is the
    logarithm of each row's sum of exponentials, for the gradient's sake.

    Constraints: (C1) qkv has rank 5 and 3 in its third dimension; (C2) result
    is [b, s, n, d]; (C3) lse is [b, n, s].
  }];
  let arguments = (ins Optimus_FloatTensor:$qkv, UnitAttr:$causal);
  let results = (outs Optimus_FloatTensor:$result, Optimus_FloatTensor:$lse);
  let assemblyFormat = "$qkv attr-dict `:` functional-type(operands, results)";
}

def Optimus_AttentionGradOp : Optimus_TensorOp<"attention_grad"> {
  let summary = "The gradient of attention";
  let description = [{
    Recomputes the probabilities from lse, a block at a time.

    Constraints: (C1) qkv and dqkv have one type's shape, [b, s, 3, n, d];
    (C2) dout and out are [b, s, n, d]; (C3) lse is [b, n, s].
  }];
  let arguments = (ins Optimus_FloatTensor:$dout, Optimus_FloatTensor:$qkv, Optimus_FloatTensor:$out,
                       Optimus_FloatTensor:$lse, UnitAttr:$causal);
  let results = (outs Optimus_FloatTensor:$dqkv);
  let assemblyFormat = "$dout `,` $qkv `,` $out `,` $lse attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Embedding, head and loss
//===----------------------------------------------------------------------===//

def Optimus_EmbeddingOp : Optimus_DifferentiableOp<"embedding"> {
  let summary = "Rows of a table, chosen by tokens";
  let description = [{
    `result[…, :] = table[tokens[…], :]`. Where the table holds some rows only,
    other tokens give zeros, so that the parts add up.

    Constraints: (C1) table is [v, h]; (C2) the result is the shape of tokens
    followed by h.
  }];
  let arguments = (ins Optimus_FloatTensor:$table, Optimus_IndexTensor:$tokens);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$table `,` $tokens attr-dict `:` functional-type(operands, results)";
}

def Optimus_EmbeddingGradOp : Optimus_TensorOp<"embedding_grad"> {
  let summary = "The gradient of an embedding table";
  let description = [{
    Adds row `dy[…, :]` to row `tokens[…]` of `accumulate`, or of zeros, in the
    order of the tokens.

    Constraints: (C1) dy is the shape of tokens followed by h; (C2) the result
    is [v, h]; (C3) accumulate has the result's shape.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_IndexTensor:$tokens,
                       Optional<Optimus_FloatTensor>:$accumulate);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = [{
    $dy `,` $tokens (`accumulate` `(` $accumulate^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Optimus_HeadLossOp : Optimus_DifferentiableOp<"head_loss"> {
  let summary = "Output head and cross-entropy, summed over real tokens";
  let description = [{
    With logits = h·tableᵀ, `loss_sum = Σ (log Σ exp(logits) − logits[target])`
    in nats over the tokens whose target is at least 0, and `real_count` their
    number. Logits are made and used `chunk` tokens at a time, never whole.

    Constraints: (C1) h is the shape of targets followed by the table's second
    dimension; (C2) the table has rank 2.
  }];
  let arguments = (ins Optimus_FloatTensor:$h, Optimus_FloatTensor:$table, Optimus_IndexTensor:$targets,
                       DefaultValuedAttr<I64Attr, "512">:$chunk);
  let results = (outs Optimus_FloatScalar:$loss_sum, Optimus_FloatScalar:$real_count);
  let assemblyFormat = "$h `,` $table `,` $targets attr-dict `:` functional-type(operands, results)";
}

def Optimus_HeadLossGradOp : Optimus_TensorOp<"head_loss_grad"> {
  let summary = "Head and loss with the gradient of loss_sum, in one pass";
  let description = [{
    As `optimus.head_loss`, with `dh = dlogits·table` and
    `dtable = dlogitsᵀ·h`, where dlogits = softmax(logits) − onehot(target) at
    real tokens and 0 elsewhere.

    Constraints: C1 and C2 of `optimus.head_loss`; (C3) dh and dtable have the shapes
    of h and table.
  }];
  let arguments = (ins Optimus_FloatTensor:$h, Optimus_FloatTensor:$table, Optimus_IndexTensor:$targets,
                       DefaultValuedAttr<I64Attr, "512">:$chunk);
  let results = (outs Optimus_FloatScalar:$loss_sum, Optimus_FloatScalar:$real_count,
                      Optimus_FloatTensor:$dh, Optimus_FloatTensor:$dtable);
  let assemblyFormat = "$h `,` $table `,` $targets attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// The optimizer
//===----------------------------------------------------------------------===//

def Optimus_GlobalNormOp : Optimus_TensorOp<"global_norm"> {
  let summary = "The Euclidean norm of many tensors taken as one vector";
  let arguments = (ins Variadic<Optimus_FloatTensor>:$inputs);
  let results = (outs Optimus_FloatScalar:$norm);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Optimus_SumSquaresOp : Optimus_TensorOp<"sum_squares"> {
  let summary = "The sum of the squares of all elements of some tensors";
  let description = "Accumulated in f64, rounded once.";
  let arguments = (ins Variadic<Optimus_FloatTensor>:$inputs);
  let results = (outs Optimus_FloatScalar:$sum);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Optimus_SqrtOp : Optimus_TensorOp<"sqrt", [SameOperandsAndResultType]> {
  let summary = "The elementwise square root";
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_ClipOp : Optimus_TensorOp<"clip"> {
  let summary = "The factor that averages and clips a gradient";
  let description = [{
    The gradient of a sum over `count` real tokens has norm `norm`. The mean's
    norm is `mean_norm = norm/max(count, 1)`, and
    `scale = min(1, limit/(mean_norm + 1e-6))/max(count, 1)` makes of that gradient the
    mean's, no longer than `limit`.
  }];
  let arguments = (ins Optimus_FloatScalar:$norm, Optimus_FloatScalar:$count, Optimus_FloatScalar:$limit);
  let results = (outs Optimus_FloatScalar:$scale, Optimus_FloatScalar:$mean_norm);
  let assemblyFormat = "$norm `,` $count `,` $limit attr-dict `:` functional-type(operands, results)";
}

def Optimus_AdamWOp : Optimus_TensorOp<"adamw"> {
  let summary = "One AdamW update";
  let description = [{
    With g' = g·scale:
    `m' = beta1·m + (1−beta1)·g'`, `v' = beta2·v + (1−beta2)·g'²`,
    `p' = p − lr·(m'/(1−beta1_power) / (√(v'/(1−beta2_power)) + epsilon) + d·p)`,
    where d is weight_decay if `decay`, else 0 (decoupled weight decay).

    Constraints: (C1) param, grad, exp_avg, exp_avg_sq and the results have one
    shape.
  }];
  let arguments = (ins Optimus_FloatTensor:$param, Optimus_FloatTensor:$grad,
                       Optimus_FloatTensor:$exp_avg, Optimus_FloatTensor:$exp_avg_sq,
                       Optimus_FloatScalar:$scale, Optimus_FloatScalar:$lr,
                       Optimus_FloatScalar:$weight_decay, Optimus_FloatScalar:$beta1,
                       Optimus_FloatScalar:$beta2, Optimus_FloatScalar:$epsilon,
                       Optimus_FloatScalar:$beta1_power, Optimus_FloatScalar:$beta2_power,
                       UnitAttr:$decay);
  let results = (outs Optimus_FloatTensor:$new_param, Optimus_FloatTensor:$new_exp_avg,
                      Optimus_FloatTensor:$new_exp_avg_sq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // OPTIMUS_DIALECT_OPTIMUS_OPS
