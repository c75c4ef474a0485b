//===- ExecInterfaces.td - Interfaces of device commands ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_INTERFACES
#define OPTIMUS_DIALECT_EXEC_INTERFACES

include "mlir/IR/OpBase.td"

def CommandOpInterface : OpInterface<"CommandOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    A command that the runtime executes: it is numbered, and it reads and writes
    buffers. Placement, verification and scheduling know commands through this
    interface only.
  }];
  let methods = [
    InterfaceMethod<"The buffers this command reads and writes.",
      "::llvm::SmallVector<::mlir::exec::Access>", "getAccesses">,
    InterfaceMethod<"The number of this command, or nothing before numbering.",
      "std::optional<uint32_t>", "getCommandId", (ins), [{
        return $_op.getId();
      }]>,
    InterfaceMethod<"Numbers this command.",
      "void", "setCommandId", (ins "uint32_t":$id), [{
        $_op.setId(id);
      }]>,
    InterfaceMethod<"The queue this command runs on, or nothing before "
                    "--optimus-order-commands.",
      "std::optional<::llvm::StringRef>", "getCommandQueue", (ins), [{
        return $_op.getQueue();
      }]>,
    InterfaceMethod<"The earlier commands that must be done first, besides those "
                    "of its queue.",
      "::llvm::ArrayRef<int32_t>", "getCommandsBefore", (ins), [{
        return $_op.getAfter().value_or(::llvm::ArrayRef<int32_t>());
      }]>,
    InterfaceMethod<"Puts this command on a queue, after others.",
      "void", "setOrder", (ins "::llvm::StringRef":$queue,
                               "::llvm::ArrayRef<int32_t>":$after), [{
        $_op.setQueue(queue);
        if (after.empty())
          $_op.removeAfterAttr();
        else
          $_op.setAfter(after);
      }]>
  ];
}

#endif // OPTIMUS_DIALECT_EXEC_INTERFACES
