//===- OptimusOptimizerOps.td - Norms, clipping and AdamW --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS
#define OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Optimus_GlobalNormOp : Optimus_TensorOp<"global_norm", [Optimus_Meaning, Optimus_ResultTypes<[Optimus_ScalarType.type]>]> {
  let summary = "The Euclidean norm of many tensors taken as one vector";
  let description = [{
    `norm = √(Σ x²)` over all elements of all inputs, the squares summed in f64
    and the root rounded once. Where inputs are sharded among ranks it is decomposed
    into `optimus.sum_squares` of those that are sharded alike, a reduction of each
    group over its own axes, and `optimus.sqrt` of their sum.

    ```mlir
    %norm = optimus.global_norm %dw, %db : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<f32>
    ```

    Constraints: (C1) there is one input at least.
  }];
  let arguments = (ins Variadic<Optimus_FloatTensor>:$inputs);
  let results = (outs Optimus_FloatScalar:$norm);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Optimus_ReshardOp : Optimus_TensorOp<"reshard", [Optimus_Meaning, Optimus_Rounding, SameOperandsAndResultType]> {
  let summary = "The same value, which may lie differently among ranks";
  let description = [{
    The identity. It lets one value have two shardings: a gradient lies as its
    parameter does where it is made, and as the optimizer's state where it is
    used. Partitioning turns it into the collectives that lead from one to the
    other.

    ```mlir
    %mine = optimus.reshard %dw : tensor<16x64xf32>
    ```
  }];
  let arguments = (ins Optimus_FloatTensor:$input);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_SumSquaresOp : Optimus_TensorOp<"sum_squares", [Optimus_Meaning, Optimus_Sum, Optimus_ResultTypes<[Optimus_ScalarType.type]>]> {
  let summary = "The sum of the squares of all elements of some tensors";
  let description = [{
    `sum = Σ x²`, accumulated in f64 and rounded once. Padded elements are
    zero and add nothing. The sums of a tensor's parts add up to that of the
    tensor; an unreduced input must be reduced first, since the square of a
    sum is not the sum of the squares.

    ```mlir
    %sum = optimus.sum_squares %dw, %db : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<f32>
    ```

    Constraints: (C1) there is one input at least.
  }];
  let arguments = (ins Variadic<Optimus_FloatTensor>:$inputs);
  let results = (outs Optimus_FloatScalar:$sum);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Optimus_SqrtOp : Optimus_TensorOp<"sqrt", [SameOperandsAndResultType]> {
  let summary = "The elementwise square root";
  let description = [{
    The last step of a norm whose sum of squares was reduced over ranks.

    ```mlir
    %norm = optimus.sqrt %sum : tensor<f32>
    ```
  }];
  let arguments = (ins Optimus_F32Tensor:$input);
  let results = (outs Optimus_F32Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Optimus_ClipOp : Optimus_TensorOp<"clip", [
    Optimus_ResultTypes<[Optimus_ScalarType.type, Optimus_ScalarType.type]>]> {
  let summary = "The factor that averages and clips a gradient";
  let description = [{
    The gradient of a sum over `count` real tokens has norm `norm`. The mean's
    norm is `mean_norm = norm/max(count, 1)`, and
    `scale = min(1, limit/(mean_norm + 1e-6))/max(count, 1)` makes of that gradient the
    mean's, no longer than `limit`. A limit of infinity clips nothing.

    ```mlir
    %scale, %mean_norm = optimus.clip %norm, %count, %limit
      : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Optimus_FloatScalar:$norm, Optimus_FloatScalar:$count, Optimus_FloatScalar:$limit);
  let results = (outs Optimus_FloatScalar:$scale, Optimus_FloatScalar:$mean_norm);
  let assemblyFormat = "$norm `,` $count `,` $limit attr-dict `:` functional-type(operands, results)";
}

def Optimus_AdamWOp : Optimus_TensorOp<"adamw", [
    Optimus_ResultTypes<["adaptor.getParam()", "adaptor.getExpAvg()", "adaptor.getExpAvgSq()"]>]> {
  let summary = "One AdamW update";
  let description = [{
    With g' = g·scale:
    `m' = beta1·m + (1−beta1)·g'`, `v' = beta2·v + (1−beta2)·g'²`,
    `p' = p − lr·(m'/(1−beta1_power) / (√(v'/(1−beta2_power)) + epsilon) + d·p)`,
    where d is weight_decay if `decay`, else 0 (decoupled weight decay).
    `beta1_power` and `beta2_power` are the betas to the power of the step,
    counted from 1; all scalars are run-time values.

    ```mlir
    %p1, %m1, %v1 = optimus.adamw %p, %g, %m, %v, %scale, %lr, %wd, %b1, %b2, %eps, %b1p, %b2p {decay}
      : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints: (C1) param, grad, exp_avg, exp_avg_sq and the results have one
    shape.
  }];
  let arguments = (ins Optimus_F32Tensor:$param, Optimus_FloatTensor:$grad,
                       Optimus_F32Tensor:$exp_avg, Optimus_F32Tensor:$exp_avg_sq,
                       Optimus_FloatScalar:$scale, Optimus_FloatScalar:$lr,
                       Optimus_FloatScalar:$weight_decay, Optimus_FloatScalar:$beta1,
                       Optimus_FloatScalar:$beta2, Optimus_FloatScalar:$epsilon,
                       Optimus_FloatScalar:$beta1_power, Optimus_FloatScalar:$beta2_power,
                       UnitAttr:$decay);
  let results = (outs Optimus_F32Tensor:$new_param, Optimus_F32Tensor:$new_exp_avg,
                      Optimus_F32Tensor:$new_exp_avg_sq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Optimus_SgdOp : Optimus_TensorOp<"sgd", [
    Optimus_ResultTypes<["adaptor.getParam()", "adaptor.getMomentumBuffer()"]>]> {
  let summary = "One update of gradient descent with momentum";
  let description = [{
    With g' = g·scale: `b' = momentum·b + g' + d·p` and `p' = p − lr·b'`, where
    d is weight_decay if `decay`, else 0, and b, `momentum_buffer`, begins with
    zeros.

    ```mlir
    %p1, %b1 = optimus.sgd %p, %g, %b, %scale, %lr, %wd, %momentum {decay}
      : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints: (C1) param, grad, momentum_buffer and the results have one
    shape.
  }];
  let arguments = (ins Optimus_F32Tensor:$param, Optimus_FloatTensor:$grad,
                       Optimus_F32Tensor:$momentum_buffer,
                       Optimus_FloatScalar:$scale, Optimus_FloatScalar:$lr,
                       Optimus_FloatScalar:$weight_decay, Optimus_FloatScalar:$momentum,
                       UnitAttr:$decay);
  let results = (outs Optimus_F32Tensor:$new_param, Optimus_F32Tensor:$new_momentum_buffer);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Optimus_LambDirectionOp : Optimus_TensorOp<"lamb_direction", [
    Optimus_ResultTypes<["adaptor.getParam()", "adaptor.getExpAvg()", "adaptor.getExpAvgSq()"]>]> {
  let summary = "The direction of a LAMB update, before its length is chosen";
  let description = [{
    As `optimus.adamw`, m' and v' and
    `direction = m'/(1−beta1_power) / (√(v'/(1−beta2_power)) + epsilon) + d·p`,
    where d is weight_decay if `decay`, else 0.

    ```mlir
    %u, %m1, %v1 = optimus.lamb_direction %p, %g, %m, %v, %scale, %wd, %b1, %b2, %eps, %b1p, %b2p {decay}
      : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints: (C1) param, grad, exp_avg, exp_avg_sq and the results have one
    shape.
  }];
  let arguments = (ins Optimus_F32Tensor:$param, Optimus_FloatTensor:$grad,
                       Optimus_F32Tensor:$exp_avg, Optimus_F32Tensor:$exp_avg_sq,
                       Optimus_FloatScalar:$scale, Optimus_FloatScalar:$weight_decay,
                       Optimus_FloatScalar:$beta1, Optimus_FloatScalar:$beta2,
                       Optimus_FloatScalar:$epsilon, Optimus_FloatScalar:$beta1_power,
                       Optimus_FloatScalar:$beta2_power, UnitAttr:$decay);
  let results = (outs Optimus_F32Tensor:$direction, Optimus_F32Tensor:$new_exp_avg,
                      Optimus_F32Tensor:$new_exp_avg_sq);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Optimus_LambUpdateOp : Optimus_TensorOp<"lamb_update", [Optimus_ResultTypes<["adaptor.getParam()"]>]> {
  let summary = "A LAMB update along a direction";
  let description = [{
    `p' = p − lr·r·direction` with the trust ratio r = param_norm/direction_norm
    where both are positive, else 1; without the norms, which are those of the
    whole tensors, r is 1.

    ```mlir
    %p1 = optimus.lamb_update %p, %u, %lr, %p_norm, %u_norm
      : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<64xf32>
    ```

    Constraints: (C1) param, direction and the result have one shape; (C2)
    there are two norms or none.
  }];
  let arguments = (ins Optimus_F32Tensor:$param, Optimus_F32Tensor:$direction,
                       Optimus_FloatScalar:$lr, Variadic<Optimus_FloatScalar>:$norms);
  let results = (outs Optimus_F32Tensor:$new_param);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS
