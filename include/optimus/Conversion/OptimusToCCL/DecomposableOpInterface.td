//===- DecomposableOpInterface.td - Operations that reduce in the middle -*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE
#define OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE

include "mlir/IR/OpBase.td"

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::mlir::optimus";
  let description = [{
    An operation with another computation on shards than its rule: it reduces a
    dimension in its middle, or another distribution is cheaper. Operations get
    it as an external model.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits what one rank does, and sets the results' local values. Fails,
        having emitted nothing and without a message, where what the operation
        reduces is whole: then its rule will do.
      }],
      "::llvm::LogicalResult", "decompose",
      (ins "::mlir::optimus::Partitioner &":$partitioner)>
  ];
}

#endif // OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE
