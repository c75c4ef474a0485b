//===- OptimusNormOps.td - Normalisation -------------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_NORMOPS
#define OPTIMUS_DIALECT_OPTIMUS_NORMOPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

// x, the result, their gradients and residuals may each have another element type:
// all is computed in f32 and rounded once where it is written. Statistics, gamma,
// beta and their gradients are f32, since a row's are used for all its elements.

def Optimus_LayerNormOp : Optimus_DifferentiableOp<"layer_norm", [
    Optimus_Precisions<["Narrow", "Full", "Full"], ["Narrow", "Full", "Full"]>,
    Optimus_RowStatistics<[1, 2]>, Optimus_Facts<>, Optimus_SymbolicValue]> {
  let summary = "Layer normalisation over the last dimension";
  let description = [{
    `result = (x − mean) · rstd · gamma + beta` with
    `rstd = 1/√(variance + epsilon)`, the variance being the mean square
    deviation; `mean` and `rstd` are results for the gradient's sake.

    ```mlir
    %y, %mean, %rstd = optimus.layer_norm %x, %gamma, %beta {epsilon = 1.0e-5 : f64}
      : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>)
      -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
    ```

    Constraints: (C1) result has the shape of x; (C2) mean and rstd lack the
    last dimension; (C3) gamma and beta are that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_F32Tensor:$gamma, Optimus_F32Tensor:$beta,
                       Optimus_EpsilonAttr:$epsilon);
  let results = (outs Optimus_FloatTensor:$result, Optimus_F32Tensor:$mean, Optimus_F32Tensor:$rstd);
  let assemblyFormat = "$x `,` $gamma `,` $beta attr-dict `:` functional-type(operands, results)";
}

def Optimus_LayerNormGradOp : Optimus_TensorOp<"layer_norm_grad", [
    Optimus_Precisions<["Narrow", "Narrow", "Full", "Full", "Full", "Narrow"], ["Narrow", "Full", "Full"]>,
    Optimus_SymbolicValue, Optimus_ResultTypes<["adaptor.getX()", "adaptor.getGamma()", "adaptor.getGamma()"]>]> {
  let summary = "The gradient of layer normalisation";
  let description = [{
    With x̂ = (x − mean)·rstd and dŷ = dy·gamma, over a row of n elements:
    `dx = rstd·(dŷ − Σdŷ/n − x̂·Σ(dŷ·x̂)/n) + residual`,
    `dgamma = Σ dy·x̂` and `dbeta = Σ dy` over all rows. `residual` is an
    optional gradient that reaches x on another path.

    ```mlir
    %dx, %dgamma, %dbeta = optimus.layer_norm_grad %dy, %x, %mean, %rstd, %gamma residual(%r)
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x16xf32>)
      -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints: (C1) dy, x, residual and dx have one shape; (C2) mean and
    rstd lack its last dimension; (C3) gamma, dgamma, dbeta are it.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_F32Tensor:$mean,
                       Optimus_F32Tensor:$rstd, Optimus_F32Tensor:$gamma,
                       Optional<Optimus_FloatTensor>:$residual);
  let results = (outs Optimus_FloatTensor:$dx, Optimus_F32Tensor:$dgamma, Optimus_F32Tensor:$dbeta);
  let assemblyFormat = [{
    $dy `,` $x `,` $mean `,` $rstd `,` $gamma (`residual` `(` $residual^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

// The parts of a layer normalisation whose rows are sharded among ranks.

def Optimus_RowMomentsOp : Optimus_TensorOp<"row_moments", [Optimus_RowStatistics<[0]>, Optimus_SymbolicValue]> {
  let summary = "Mean and sum of squared deviations of each row's real elements";
  let description = [{
    For x [rows…, n] a [rows…, 2] of (mean, M2) over the real, unpadded
    elements of the local row; a row without real elements gives (0, 0). They
    summarise a rank's part of a sharded row. The moments of all n parts are one
    tensor [rows…, 2·n], sharded as the row is; gathered, they are merged by
    `optimus.merge_moments`.

    ```mlir
    %moments = optimus.row_moments %x : (tensor<2x8x16xf32>) -> tensor<2x8x2xf32>
    ```

    Constraints: (C1) the result is x's shape with the last dimension 2.
  }];
  let arguments = (ins Optimus_FloatTensor:$x);
  let results = (outs Optimus_F32Tensor:$moments);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Optimus_MergeMomentsOp : Optimus_TensorOp<"merge_moments", [Optimus_RowStatistics<[0, 1]>, Optimus_SymbolicValue]> {
  let summary = "Mean and reciprocal standard deviation from the moments of parts";
  let description = [{
    `moments` is [rows…, 2·parts]: (mean, M2) of each part in rank order; the
    parts have `counts` real elements. They are merged in rank order by Chan's
    formula, without squares of large means:
    `δ = mean_b − mean_a; mean = mean_a + δ·n_b/n; M2 = M2_a + M2_b + δ²·n_a·n_b/n`.
    Then `rstd = 1/√(M2/n + epsilon)`.

    ```mlir
    %mean, %rstd = optimus.merge_moments %moments {counts = array<i64: 16, 16, 8>, epsilon = 1.0e-5 : f64}
      : (tensor<2x8x6xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    ```

    Constraints: (C1) moments has 2 elements a row for each count; (C2) mean
    and rstd have its other dimensions; (C3) counts are not negative, one is positive, and
    they add up to at most 2^48.
  }];
  let arguments = (ins Optimus_F32Tensor:$moments, DenseI64ArrayAttr:$counts, Optimus_EpsilonAttr:$epsilon);
  let results = (outs Optimus_F32Tensor:$mean, Optimus_F32Tensor:$rstd);
  let assemblyFormat = "$moments attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormalizeOp : Optimus_TensorOp<"normalize", [Optimus_ResultTypes<["adaptor.getX()"]>]> {
  let summary = "(x − mean)·rstd·gamma + beta";
  let description = [{
    The elementwise part of a layer normalisation, once the statistics of whole
    rows are known. Padded elements come out zero because gamma and beta are
    zero there.

    ```mlir
    %y = optimus.normalize %x, %mean, %rstd, %gamma, %beta
      : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) result has the shape of x; (C2) mean and rstd lack the
    last dimension; (C3) gamma and beta are it.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_F32Tensor:$mean, Optimus_F32Tensor:$rstd,
                       Optimus_F32Tensor:$gamma, Optimus_F32Tensor:$beta);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$x `,` $mean `,` $rstd `,` $gamma `,` $beta attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormGradSumsOp : Optimus_TensorOp<"norm_grad_sums", [Optimus_RowStatistics<[0]>]> {
  let summary = "The two sums of a row that a normalisation's gradient needs";
  let description = [{
    [rows…, 2] of (Σdŷ, Σdŷ·x̂) over the local row, with dŷ = dy·gamma and
    x̂ = (x − mean)·rstd; padded elements add zero since gamma is zero there.

    ```mlir
    %sums = optimus.norm_grad_sums %dy, %x, %mean, %rstd, %gamma
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> tensor<8x2xf32>
    ```

    Constraints: (C1) dy and x have one shape; (C2) the result is that shape
    with the last dimension 2; (C3) mean and rstd lack the last dimension and
    gamma is it.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_F32Tensor:$mean,
                       Optimus_F32Tensor:$rstd, Optimus_F32Tensor:$gamma);
  let results = (outs Optimus_F32Tensor:$sums);
  let assemblyFormat = "$dy `,` $x `,` $mean `,` $rstd `,` $gamma attr-dict `:` functional-type(operands, results)";
}

def Optimus_NormGradApplyOp : Optimus_TensorOp<"norm_grad_apply", [Optimus_SymbolicValue, Optimus_ResultTypes<["adaptor.getX()"]>]> {
  let summary = "A normalisation's dx from its row sums";
  let description = [{
    `dx = rstd·(dŷ − sums₀/size − x̂·sums₁/size) + residual`, zero at padded
    elements; `size` is the true extent of the whole row and `sums` are those
    of `optimus.norm_grad_sums`, over the whole row too.

    ```mlir
    %dx = optimus.norm_grad_apply %dy, %x, %mean, %rstd, %gamma, %sums {size = 16 : i64}
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
    ```

    Constraints: (C1) dy, x, residual and dx have one shape; (C2) sums has
    two elements a row; (C3) mean and rstd lack the last dimension and gamma
    is it.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_F32Tensor:$mean,
                       Optimus_F32Tensor:$rstd, Optimus_F32Tensor:$gamma, Optimus_F32Tensor:$sums,
                       Optional<Optimus_FloatTensor>:$residual,
                       Optimus_SizeAttr:$size);
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

    ```mlir
    %dgamma, %dbeta = optimus.norm_param_grad %dy, %x, %mean, %rstd
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints: (C1) dy and x have one shape; (C2) mean and rstd lack its last
    dimension; (C3) dgamma and dbeta are that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_F32Tensor:$mean,
                       Optimus_F32Tensor:$rstd);
  let results = (outs Optimus_F32Tensor:$dgamma, Optimus_F32Tensor:$dbeta);
  let assemblyFormat = "$dy `,` $x `,` $mean `,` $rstd attr-dict `:` functional-type(operands, results)";
}

// Normalisation by the root mean square.

def Optimus_RmsNormOp : Optimus_DifferentiableOp<"rms_norm", [
    Optimus_Precisions<["Narrow", "Full"], ["Narrow", "Full"]>,
    Optimus_RowStatistics<[1]>, Optimus_Facts<>, Optimus_SymbolicValue]> {
  let summary = "Normalisation by the root mean square over the last dimension";
  let description = [{
    `result = x · rstd · gamma` with `rstd = 1/√(Σx²/n + epsilon)` over a row of
    n elements; `rstd` is a result for the gradient's sake.

    ```mlir
    %y, %rstd = optimus.rms_norm %x, %gamma {epsilon = 1.0e-6 : f64}
      : (tensor<2x8x16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>)
    ```

    Constraints: (C1) result has the shape of x; (C2) rstd lacks the last
    dimension; (C3) gamma is that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_F32Tensor:$gamma, Optimus_EpsilonAttr:$epsilon);
  let results = (outs Optimus_FloatTensor:$result, Optimus_F32Tensor:$rstd);
  let assemblyFormat = "$x `,` $gamma attr-dict `:` functional-type(operands, results)";
}

def Optimus_RmsNormGradOp : Optimus_TensorOp<"rms_norm_grad", [
    Optimus_Precisions<["Narrow", "Narrow", "Full", "Full", "Full", "Narrow"], ["Narrow", "Full"]>,
    AttrSizedOperandSegments, Optimus_SymbolicValue,
    Optimus_ResultTypes<["adaptor.getX()", "adaptor.getGamma()"]>]> {
  let summary = "The gradient of normalisation by the root mean square";
  let description = [{
    With dŷ = dy·gamma, over a row of n elements:
    `dx = rstd·dŷ − x·rstd³·Σ(dŷ·x)/n + residual` and `dgamma = Σ dy·x·rstd` over
    all rows. `residual` is an optional gradient that reaches x on another path.
    Where rows are sharded, `sums` are Σ(dŷ·x) of whole rows, of `size` elements
    that are not padding.

    ```mlir
    %dx, %dgamma = optimus.rms_norm_grad %dy, %x, %rstd, %gamma residual(%r)
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x16xf32>)
      -> (tensor<8x16xf32>, tensor<16xf32>)
    %dz, %dg = optimus.rms_norm_grad %dy, %x, %rstd, %gamma sums(%rstd) {size = 31 : i64}
      : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8xf32>)
      -> (tensor<8x16xf32>, tensor<16xf32>)
    ```

    Constraints: (C1) dy, x, residual and dx have one shape; (C2) rstd and sums
    lack its last dimension; (C3) gamma and dgamma are it; (C4) there are sums
    exactly where there is a size.
  }];
  let arguments = (ins Optimus_FloatTensor:$dy, Optimus_FloatTensor:$x, Optimus_F32Tensor:$rstd,
                       Optimus_F32Tensor:$gamma, Optional<Optimus_F32Tensor>:$sums,
                       Optional<Optimus_FloatTensor>:$residual,
                       OptionalAttr<Optimus_SizeAttr>:$size);
  let results = (outs Optimus_FloatTensor:$dx, Optimus_F32Tensor:$dgamma);
  let assemblyFormat = [{
    $dy `,` $x `,` $rstd `,` $gamma (`sums` `(` $sums^ `)`)? (`residual` `(` $residual^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

// The parts of a normalisation by the root mean square whose rows are sharded
// among ranks.

def Optimus_RowDotOp : Optimus_TensorOp<"row_dot", [Optimus_RowStatistics<[0]>]> {
  let summary = "Σ a·b·weight over the last dimension";
  let description = [{
    One number a row; without weight, Σ a·b. Of rows that are sharded, parts give
    partial sums. Padded elements add zero because a or b is zero there.

    ```mlir
    %squares = optimus.row_dot %x, %x : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8xf32>
    %sums = optimus.row_dot %dy, %x weight(%gamma)
      : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8xf32>
    ```

    Constraints: (C1) a and b have one shape; (C2) the result lacks its last
    dimension; (C3) weight is that dimension.
  }];
  let arguments = (ins Optimus_FloatTensor:$a, Optimus_FloatTensor:$b,
                       Optional<Optimus_F32Tensor>:$weight);
  let results = (outs Optimus_F32Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b (`weight` `(` $weight^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_RmsRstdOp : Optimus_TensorOp<"rms_rstd", [Optimus_RowStatistics<[0]>, SameOperandsAndResultType]> {
  let summary = "1/√(squares/size + epsilon)";
  let description = [{
    The reciprocal root mean square of rows from their sums of squares; `size` is
    the true extent of the whole row.

    ```mlir
    %rstd = optimus.rms_rstd %squares {epsilon = 1.0e-6 : f64, size = 16 : i64} : tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Optimus_F32Tensor:$squares, Optimus_SizeAttr:$size,
                       Optimus_EpsilonAttr:$epsilon);
  let results = (outs Optimus_F32Tensor:$rstd);
  let assemblyFormat = "$squares attr-dict `:` type($squares)";
}

def Optimus_RmsScaleOp : Optimus_TensorOp<"rms_scale", [Optimus_ResultTypes<["adaptor.getX()"]>]> {
  let summary = "x·rstd·gamma";
  let description = [{
    The elementwise part of a normalisation by the root mean square, once that
    of whole rows is known.

    ```mlir
    %y = optimus.rms_scale %x, %rstd, %gamma
      : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
    ```

    Constraints: (C1) result has the shape of x; (C2) rstd lacks the last
    dimension; (C3) gamma is it.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_F32Tensor:$rstd, Optimus_F32Tensor:$gamma);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$x `,` $rstd `,` $gamma attr-dict `:` functional-type(operands, results)";
}

#endif // OPTIMUS_DIALECT_OPTIMUS_NORMOPS
