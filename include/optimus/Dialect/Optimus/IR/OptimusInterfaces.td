//===- OptimusInterfaces.td - Interfaces of operations on tensors --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_INTERFACES
#define OPTIMUS_DIALECT_OPTIMUS_INTERFACES

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    Relates the dimensions of an operation's operands and results, as an einsum
    does. Propagation, partitioning and padding are written once over it.
  }];
  let methods = [
    InterfaceMethod<"The rule of this operation.",
      "::mlir::optimus::ShardingRule", "getShardingRule">
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that can build its gradient. `buildGradient` is called in
    reverse program order with the gradients of its results (null where a
    result has none, but not for all). It adds the gradients of its operands to the
    accumulator. The forward operation may be replaced by a form that also
    yields values for the gradient.
  }];
  let methods = [
    InterfaceMethod<"Builds the gradient of the operands.",
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
           "::mlir::optimus::GradientAccumulator &":$gradients)>
  ];
}

def StochasticOpInterface : OpInterface<"StochasticOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation with one result that depends on random numbers. Training
    draws them; an evaluation computes with the expected value.
  }];
  let methods = [
    InterfaceMethod<"The operand that the result is on average.",
      "::mlir::Value", "getExpectedValue">
  ];
}

// What an operation says of itself. Passes ask these interfaces and know no list
// of operations; docs/add-an-op.md lists the users of each.

def SumOpInterface : OpInterface<"SumOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation whose result is a sum with operands as terms: some of them may
    be partial sums. Without this interface every operand is a factor.
  }];
  let methods = [
    InterfaceMethod<"What an operand is in the sum.",
      "::mlir::optimus::Contribution", "getContribution",
      (ins "::mlir::OpOperand &":$operand)>
  ];
}

def SymbolicValueOpInterface : OpInterface<"SymbolicValueOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation whose results are defined as expressions of other operations on
    whole tensors. The proof of a partition needs it where two programs compute
    the same value with different operations. Without this interface an
    operation on shards is the same operation on whole tensors, by its sharding
    rule.
  }];
  let methods = [
    InterfaceMethod<[{
        Sets each result's term on whole tensors from the terms of the operands,
        and records the lemmas that justify it.
      }],
      "void", "setSymbolicValues", (ins "::mlir::optimus::SymbolicValues &":$symbolic)>
  ];
}

def OperandShardsOpInterface : OpInterface<"OperandShardsOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that shards operands otherwise during its computation than
    before it; they need padding for both shardings.
  }];
  let methods = [
    InterfaceMethod<[{
        The dimensions that it shards, as follows from the shardings of its
        operands; none where these are undecided.
      }],
      "::llvm::SmallVector<::mlir::optimus::OperandShards>", "getOperandShards">
  ];
}

def RoundingOpInterface : OpInterface<"RoundingOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation without a rule, or with other rounding than its rule implies.
  }];
  let methods = [
    InterfaceMethod<[{
        How many roundings an element of a result goes through at most: the
        lengths of the sums that it is made by, and `kElementwise` where something
        is computed element by element. 0 of what only moves elements.
      }],
      "double", "countRoundings", (ins "unsigned":$result)>
  ];
  let extraClassDeclaration = [{
    /// Roundings of one element outside sums. The most are those of an
    /// exponential or of GELU, whose polynomials are accurate to a few units in
    /// the last place.
    static constexpr double kElementwise = 8;
  }];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that may compute with a narrow element type. Without this
    interface all that it reads and makes is f32.
  }];
  let methods = [
    InterfaceMethod<"Of what precision an operand is.",
      "::mlir::optimus::Precision", "getOperandPrecision", (ins "unsigned":$operand)>,
    InterfaceMethod<"Of what precision a result is.",
      "::mlir::optimus::Precision", "getResultPrecision", (ins "unsigned":$result)>
  ];
}

def WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that takes longer than to read its operands and write its
    results. It is priced by this, and not repeated to save memory if it is a
    product.
  }];
  let methods = [
    InterfaceMethod<"What one rank computes.",
      "::mlir::optimus::Work", "getWork">
  ];
}

def RowReductionOpInterface : OpInterface<"RowReductionOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that reduces rows to a few numbers each, as a norm to means or
    attention to logarithms of sums of exponentials. To keep these statistics
    takes little; to recompute them takes the whole rows, and a collective where
    rows are sharded. Without this interface no result is a statistic, however
    small it is beside others.
  }];
  let methods = [
    InterfaceMethod<"The numbers of the results that are statistics of rows.",
      "::llvm::SmallVector<unsigned>", "getRowStatistics">
  ];
}

def TokenTableOpInterface : OpInterface<"TokenTableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation with a table that has a row for each token of the vocabulary.
  }];
  let methods = [
    InterfaceMethod<"The table.", "::mlir::Value", "getTokenTable", (ins), [{
      return $_op.getTable();
    }]>
  ];
}

def ModelFactsOpInterface : OpInterface<"ModelFactsOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that states facts of its model for checkpoints: heads,
    epsilons, masks. Without this interface an operation decides what the model
    computes by its name, its attributes and its operands, and people have no
    name for it.
  }];
  let methods = [
    InterfaceMethod<"States the facts that the operation decides, and others of note.",
      "void", "stateFacts", (ins "::mlir::optimus::ModelFacts &":$facts), [{}], [{
      static_cast<void>(facts);
    }]>,
    InterfaceMethod<"The attributes without influence on the results.",
      "::llvm::SmallVector<::llvm::StringRef>", "getIncidentalAttributes", (ins), [{}], [{
      return {};
    }]>,
    InterfaceMethod<[{
        The operand that the only result is, but for randomness, rounding and the
        places of tokens; null if there is none.
      }],
      "::mlir::Value", "getStandIn", (ins), [{}], [{
      return nullptr;
    }]>,
    InterfaceMethod<[{
        The last group of operands if it says where tokens stand, null where it is
        absent; nothing if the last group is another.
      }],
      "::std::optional<::mlir::Value>", "getPlaces", (ins), [{}], [{
      return ::std::nullopt;
    }]>
  ];
}

#endif // OPTIMUS_DIALECT_OPTIMUS_INTERFACES
