//===- ExecLoweringOpInterface.td - Operations as commands -*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE
#define OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE

include "mlir/IR/OpBase.td"

def ExecLoweringOpInterface : OpInterface<"ExecLoweringOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation on local tensors that becomes commands of the device program.
    Operations get it as an external model, one file a family in
    `lib/Conversion/ToExec`.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the commands. Buffers of operands and results are chosen already.
        Fails with a message on the operation.
      }],
      "::llvm::LogicalResult", "lowerToExec",
      (ins "::mlir::optimus::Lowering &":$lowering)>,
    InterfaceMethod<[{
        The numbers of the operands whose buffer a result can be written into,
        the preferred one first. The commands read every element of such an
        operand before they write it, or have nothing to do for it.
      }],
      "::llvm::SmallVector<unsigned>", "getInPlaceOperands",
      (ins "unsigned":$result), "", [{
        return {};
      }]>,
    InterfaceMethod<[{
        Of a loss, the number of its first result that is a gradient. What comes
        after a loss is gradient too. Nothing for other operations.
      }],
      "std::optional<unsigned>", "getFirstGradient", (ins), "", [{
        return std::nullopt;
      }]>
  ];
}

def FusibleOpInterface : OpInterface<"FusibleOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation that can absorb the sum or product behind its result (an
    epilogue). Operations get it as an external model.
  }];
  let methods = [
    InterfaceMethod<[{
        The operand, not there yet, with which `result` becomes its sum with
        `addend`; nothing if there is none.
      }],
      "std::optional<::mlir::optimus::FusionSlot>", "getAddendSlot",
      (ins "::mlir::OpResult":$result, "::mlir::Value":$addend)>,
    InterfaceMethod<"The same for the product with `factor`.",
      "std::optional<::mlir::optimus::FusionSlot>", "getFactorSlot",
      (ins "::mlir::OpResult":$result, "::mlir::Value":$factor), "", [{
        return std::nullopt;
      }]>
  ];
}

def AbsorbableOpInterface : OpInterface<"AbsorbableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    A sum or product of two tensors, fusible into the producer of either.
    Operations get it as an external model.
  }];
  let methods = [
    InterfaceMethod<[{
        Where `maker`, whose result `part` is one of the two, has room for the
        `other`; nothing if it has none.
      }],
      "std::optional<::mlir::optimus::FusionSlot>", "getSlotIn",
      (ins "::mlir::optimus::FusibleOpInterface":$maker,
           "::mlir::OpResult":$part, "::mlir::Value":$other)>
  ];
}

#endif // OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE
