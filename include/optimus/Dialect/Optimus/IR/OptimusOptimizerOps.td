//===- OptimusOptimizerOps.td - Norms, clipping and steps --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS
#define OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Optimus_GlobalNormOp : Optimus_TensorOp<"global_norm", [Optimus_SymbolicValue, Optimus_ResultTypes<[Optimus_ScalarType.type]>]> {
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

def Optimus_ReshardOp : Optimus_TensorOp<"reshard", [Optimus_SymbolicValue, Optimus_Rounding, SameOperandsAndResultType]> {
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

def Optimus_SumSquaresOp : Optimus_TensorOp<"sum_squares", [Optimus_SymbolicValue, Optimus_Sum, Optimus_ResultTypes<[Optimus_ScalarType.type]>]> {
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

class Optimus_NameList<string constant, list<string> names> {
  string text = "static constexpr ::llvm::StringRef " # constant # "[] = {\""
                # !interleave(names, "\", \"") # "\"};\n";
}

/// The names of an operation's operands and results: tensors, taken element by
/// element, and numbers, shared by all elements. OptimizerSteps.h has the
/// formula. The first result may be in place of `places`, the preferred first;
/// `new_x` is in place of `x`.
class Optimus_StepNames<list<string> tensors, list<string> numbers, list<string> results, list<string> places> {
  string text = Optimus_NameList<"kTensors", tensors>.text # Optimus_NameList<"kNumbers", numbers>.text
                # Optimus_NameList<"kResults", results>.text # Optimus_NameList<"kPlaces", places>.text;
}

/// A step of an optimizer on one parameter: what it keeps of it and is told, by the
/// names of checkpoints and hyperparameters.
class Optimus_StepOp<string mnemonic, list<string> states, list<string> numbers,
                     string result = "new_param", string place = "param">
    : Optimus_TensorOp<mnemonic, [Optimus_ResultTypes<!listconcat(["operands[0]"],
        !foreach(i, !range(!size(states)), "operands[" # !add(i, 2) # "]"))>]> {
  defvar newStates = !foreach(state, states, "new_" # state);
  let arguments = !con(
      (ins Optimus_F32Tensor:$param, Optimus_FloatTensor:$grad),
      !dag(ins, !listsplat(Optimus_F32Tensor, !size(states)), states),
      (ins Optimus_FloatScalar:$scale),
      !dag(ins, !listsplat(Optimus_FloatScalar, !size(numbers)), numbers),
      (ins UnitAttr:$decay));
  let results = !con(!dag(outs, [Optimus_F32Tensor], [result]),
                     !dag(outs, !listsplat(Optimus_F32Tensor, !size(states)), newStates));
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = Optimus_StepNames<!listconcat(["param", "grad"], states), !listconcat(["scale"], numbers),
                                                !listconcat([result], newStates), [place]>.text;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return detail::verifyStep(*this, kTensors, kResults); }
    ::mlir::optimus::ShardingRule $cppClass::getShardingRule() { return detail::getStepRule(*this); }
  }];
}

def Optimus_AdamWOp : Optimus_StepOp<"adamw", ["exp_avg", "exp_avg_sq"],
    ["lr", "weight_decay", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power"]> {
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
}

def Optimus_SgdOp : Optimus_StepOp<"sgd", ["momentum_buffer"], ["lr", "weight_decay", "momentum"]> {
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
}

def Optimus_LambDirectionOp : Optimus_StepOp<"lamb_direction", ["exp_avg", "exp_avg_sq"],
    ["weight_decay", "beta1", "beta2", "epsilon", "beta1_power", "beta2_power"],
    "direction", "grad"> {
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
}

def Optimus_LionOp : Optimus_StepOp<"lion", ["exp_avg"], ["lr", "weight_decay", "beta1", "beta2"]> {
  let summary = "One Lion update";
  let description = [{
    With g' = g·scale: `p' = p − lr·(sign(beta1·m + (1−beta1)·g') + d·p)` and
    `m' = beta2·m + (1−beta2)·g'`, where d is weight_decay if `decay`, else 0. The
    sign of 0 is 0, and that of NaN NaN.

    ```mlir
    %p1, %m1 = optimus.lion %p, %g, %m, %scale, %lr, %wd, %b1, %b2 {decay}
      : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>,
         tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints: (C1) param, grad, exp_avg and the results have one shape.
  }];
}

def Optimus_AdagradOp : Optimus_StepOp<"adagrad", ["sum"], ["lr", "weight_decay", "epsilon"]> {
  let summary = "One Adagrad update";
  let description = [{
    With g' = g·scale + d·p, where d is weight_decay if `decay`, else 0:
    `s' = s + g'²` and `p' = p − lr·g'/(√s' + epsilon)`.

    ```mlir
    %p1, %s1 = optimus.adagrad %p, %g, %s, %scale, %lr, %wd, %eps {decay}
      : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints: (C1) param, grad, sum and the results have one shape.
  }];
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
  let extraClassDeclaration = Optimus_StepNames<["param", "direction"], ["lr", "param_norm", "direction_norm"],
                                                ["new_param"], ["param", "direction"]>.text # [{
    /// In the names of kernels that are given more numbers than the first.
    static constexpr ::llvm::StringRef kOption = "trust";
  }];
  let extraClassDefinition = [{
    ::mlir::optimus::ShardingRule $cppClass::getShardingRule() { return detail::getStepRule(*this); }
  }];
}

#endif // OPTIMUS_DIALECT_OPTIMUS_OPTIMIZEROPS
