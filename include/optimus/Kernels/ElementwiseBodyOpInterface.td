//===- ElementwiseBodyOpInterface.td - Scalar bodies -------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE
#define OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE

include "mlir/IR/OpBase.td"

def ElementwiseBodyOpInterface : OpInterface<"ElementwiseBodyOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation whose results have at each element a function of its operands
    there; an operand may be repeated over leading dimensions. Operations get it
    as an external model in `lib/Kernels/ElementwiseBodies.cpp`. Kernel, lowering and
    what can be done in place follow from it.
  }];
  let methods = [
    StaticInterfaceMethod<[{
        The results, of the operands and of the operation's own attributes. Asked of
        the operation's name: kernels are built when the operation is gone.
      }],
      "::llvm::SmallVector<::mlir::optimus::Num, 2>", "buildElement",
      (ins "::mlir::optimus::KernelBuilder &":$k,
           "::llvm::ArrayRef<::mlir::optimus::Num>":$operands,
           "::mlir::DictionaryAttr":$attributes)>,
    StaticInterfaceMethod<[{
        What its kernel calls its operands and results; nothing where they go by
        numbers and each result may be in place of any operand of its extent.
      }],
      "::std::optional<::mlir::optimus::ElementwiseNames>", "getNames",
      (ins "unsigned":$numOperands), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">
  ];
}

#endif // OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE
