//===- OptimusOpBase.td - What operations share ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_OPBASE
#define OPTIMUS_DIALECT_OPTIMUS_OPBASE

include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Optimus/IR/OptimusAttrs.td"
include "optimus/Dialect/Optimus/IR/OptimusInterfaces.td"

/// What is large: activations, their gradients, factors of products. Operations
/// compute in f32 and round what they write to its element type.
def Optimus_FloatTensor : Optimus_TensorOf<[F32, BF16, F16]>;
/// What narrow types would spoil: parameters' states, statistics, sums.
def Optimus_F32Tensor : Optimus_TensorOf<[F32]>;
def Optimus_IndexTensor : Optimus_TensorOf<[I32]>;
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

// What operations say of themselves; see OptimusInterfaces.td.
def Optimus_Sum : DeclareOpInterfaceMethods<SumOpInterface>;
def Optimus_SymbolicValue : DeclareOpInterfaceMethods<SymbolicValueOpInterface>;
def Optimus_OperandShards : DeclareOpInterfaceMethods<OperandShardsOpInterface>;
def Optimus_Rounding : DeclareOpInterfaceMethods<RoundingOpInterface>;
def Optimus_Work : DeclareOpInterfaceMethods<WorkOpInterface>;
class Optimus_Facts<list<string> more = []>
    : DeclareOpInterfaceMethods<ModelFactsOpInterface, !listconcat(["stateFacts"], more)>;

/// Of what precision operands and results are, one a group of them as they are
/// declared: Full, Narrow, Same, SameOrFull or Any. What is no float is Any.
class Optimus_PrecisionLookup<string kind, list<string> groups> {
  string text = [{
    ::mlir::optimus::Precision $cppClass::get}] # kind # [{Precision(unsigned number) {
      using enum ::mlir::optimus::Precision;
      return ::mlir::optimus::detail::findPrecision(
          number, {}] # !interleave(groups, ", ") # "}," # [{
          [&](unsigned group) { return getODS}] # kind # [{IndexAndLength(group); });
    }
  }];
}
class Optimus_PrecisionTable<list<string> operands, list<string> results>
    : NativeOpTrait<"HasPrecisions", [], [{}],
        Optimus_PrecisionLookup<"Operand", operands>.text #
        Optimus_PrecisionLookup<"Result", results>.text> {
  let cppNamespace = "::mlir::optimus::detail";
}
class Optimus_Precisions<list<string> operands, list<string> results> : TraitList<[
    DeclareOpInterfaceMethods<PrecisionOpInterface>,
    Optimus_PrecisionTable<operands, results>]>;

/// Which results rows are reduced to, by number.
class Optimus_RowStatisticsList<list<int> results>
    : NativeOpTrait<"HasRowStatistics", [], [{}], [{
        ::llvm::SmallVector<unsigned> $cppClass::getRowStatistics() {
          return }] # "{" # !interleave(results, ", ") # "};" # [{
        }
      }]> {
  let cppNamespace = "::mlir::optimus::detail";
}
class Optimus_RowStatistics<list<int> results> : TraitList<[
    DeclareOpInterfaceMethods<RowReductionOpInterface>,
    Optimus_RowStatisticsList<results>]>;

/// A product whose tensors can move in panels: it may carry `optimus.move`.
def Optimus_MovesInPanels : NativeOpTrait<"MovesInPanels"> {
  let cppNamespace = "::mlir::optimus";
}

/// The types of the results, where they follow from the operands: C++ expressions
/// in order, each an operand whose type it is (`adaptor.getX()`, nothing where an
/// optional one is absent, several of a variadic one) or a type. So builders need
/// not name them. A rank's tensors may carry other layouts than those of the
/// operands, so a misfit is an error of the operation's verifier, by its
/// constraints.
class Optimus_ResultTypes<list<string> types> : TraitList<[
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    NativeOpTrait<"InferTypeOpAdaptor", [], [{
      static bool isCompatibleReturnTypes(::mlir::TypeRange, ::mlir::TypeRange) { return true; }
    }], [{
      ::llvm::LogicalResult $cppClass::inferReturnTypes(
          ::mlir::MLIRContext *context, std::optional<::mlir::Location>,
          ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
          ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
          ::llvm::SmallVectorImpl<::mlir::Type> &types) {
        $cppClass::Adaptor adaptor(operands, attributes, properties, regions);
    }] # !foldl("", types, text, type, text # "    detail::addResultType(types, " # type # ");\n") # [{
        return ::mlir::success();
      }
    }]>]>;
def Optimus_ScalarType { string type = "detail::getScalarType(context)"; }

#endif // OPTIMUS_DIALECT_OPTIMUS_OPBASE
