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
    buffers. Placement, order and verification know commands through this
    interface only.
  }];
  let methods = [
    InterfaceMethod<"The buffers this command reads and writes.",
      "::llvm::SmallVector<::mlir::exec::Access>", "getAccesses">,
    InterfaceMethod<[{
        Whether the writes of this command must lie apart from its reads of
        another operand: it does not read an element just before it writes it.
      }],
      "bool", "needsOperandsApart", (ins), "", [{
        return false;
      }]>,
    InterfaceMethod<"The queue that this command belongs on.",
      "::llvm::StringRef", "getOwnQueue", (ins), "", [{
        return ::mlir::exec::kComputeQueue;
      }]>,
    InterfaceMethod<[{
        The command that waits for the work started by this one; what this one
        touches is in use until then. Null where it is done when it has run.
      }],
      "::mlir::Operation *", "getWaitingCommand", (ins), "", [{
        return nullptr;
      }]>,
    InterfaceMethod<[{
        Whether a later call waits for the work started by this one: what this one
        touches is in use until the function ends.
      }],
      "bool", "isCarried", (ins), "", [{
        return false;
      }]>,
    InterfaceMethod<"The command that started the work awaited by this one, or null.",
      "::mlir::Operation *", "getAwaitedCommand", (ins), "", [{
        return nullptr;
      }]>,
    InterfaceMethod<[{
        Behind how many later commands it has time to be done: what it touches
        stays in place for so long.
      }],
      "int64_t", "getCommandLag", (ins), "", [{
        return 0;
      }]>,
    InterfaceMethod<"The number of this command, or nothing before numbering.",
      "std::optional<uint32_t>", "getCommandId", (ins), [{
        return $_op.getId();
      }]>,
    InterfaceMethod<"Numbers this command.",
      "void", "setCommandId", (ins "::mlir::IntegerAttr":$id), [{
        $_op.setIdAttr(id);
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
      "void", "setOrder", (ins "::mlir::StringAttr":$queue,
                               "::llvm::ArrayRef<int32_t>":$after), [{
        $_op.setQueueAttr(queue);
        if (after.empty())
          $_op.removeAfterAttr();
        else
          $_op.setAfter(after);
      }]>
  ];
}

def BufferOpInterface : OpInterface<"BufferOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    Makes a buffer of its own: asks for it, or says where it lies.
  }];
  let methods = [
    InterfaceMethod<"What the address of the buffer is a multiple of, in bytes.",
      "int64_t", "getBufferAlignment", (ins), "", [{
        return $_op.getAlignment().value_or(::mlir::exec::kLeastAlignment);
      }]>
  ];
}

def BufferViewOpInterface : OpInterface<"BufferViewOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    Its result is a part of buffers that are there already. It takes no time, and
    keeps these buffers alive.
  }];
  let methods = [
    InterfaceMethod<[{
        What the result is a part of: one buffer, or the two that `getChoice`
        chooses between.
      }],
      "::llvm::SmallVector<::mlir::Value, 2>", "getViewedBuffers">,
    InterfaceMethod<"How many bytes behind its buffer the result begins.",
      "::mlir::exec::RankNumber", "getByteOffset", (ins), "", [{
        return {};
      }]>,
    InterfaceMethod<[{
        Which ranks use the first of two buffers; the others use the second.
        Nothing where there is one buffer.
      }],
      "std::optional<::mlir::exec::RankChoice>", "getChoice", (ins), "", [{
        return std::nullopt;
      }]>
  ];
}

def RankNumberOpInterface : OpInterface<"RankNumberOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = [{
    Its result is an integer that follows from a rank's place on the mesh.
  }];
  let methods = [
    InterfaceMethod<"The number.", "::mlir::exec::RankNumber", "getNumber">
  ];
}

#endif // OPTIMUS_DIALECT_EXEC_INTERFACES
