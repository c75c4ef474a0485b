//===- ExecCommunicationOps.td - Collectives ---------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_COMMUNICATIONOPS
#define OPTIMUS_DIALECT_EXEC_COMMUNICATIONOPS

include "optimus/Dialect/Exec/IR/ExecBase.td"

def Exec_CollectiveStartOp : Exec_Command<"collective_start", [],
    ["getOwnQueue", "getWaitingCommand", "isCarried"]> {
  let summary = "Starts a collective over a mesh axis";
  let description = [{
    A matrix [outer, inner] moves among the ranks that differ only in their
    index on `axis`, as the ABI says of `kind`. `root` matters to broadcast and reduce
    only. `src` may be `dst` for all_reduce, and on the root of a broadcast or reduce.
    Between start and wait nothing may write `src` or touch `dst`. `src` of a broadcast
    is read on the root only, `dst` of a reduce is written on the root only. Reductions
    add in rank order, narrow elements in f32, and round the sum once. `kernel`
    adds them where ranks share a device whose sums are by kernels.

    ```mlir
    %t = exec.collective_start all_reduce sum over "col", %x to %x
      {outer = 1, inner = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>, memref<64xf32>
    exec.wait %t
    ```

    With `carried`, a later call waits for it, by this number: both buffers are of arguments
    then, and in use until the function ends.

    Constraints: (C1) the mesh has the axis and the root lies on it; (C2) outer and inner are positive,
    leading dimensions as C2 of `exec.gemm` says; (C3) both buffers hold their matrix; (C4) exactly
    one command waits for the token, or none with `carried`, a positive number; (C5) of the kinds without reduction, `reduction` is sum;
    (C6) both buffers have one element type.
  }];
  let arguments = (ins Exec_CollectiveKindAttr:$kind, Exec_ReductionAttr:$reduction,
                       StrAttr:$axis, DefaultValuedAttr<I64Attr, "0">:$root,
                       Exec_FloatBuffer:$src, Exec_FloatBuffer:$dst,
                       I64Attr:$outer, I64Attr:$inner, I64Attr:$src_ld, I64Attr:$dst_ld,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel,
                       OptionalAttr<I32Attr>:$carried,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let results = (outs Exec_TokenType:$token);
  let assemblyFormat = [{
    $kind $reduction `over` $axis `,` $src `to` $dst attr-dict
    `:` type($src) `,` type($dst)
  }];
  let extraClassDeclaration = [{
    /// The command that waits for this one, or null.
    WaitOp getWait();
  }];
  let hasVerifier = 1;
}

def Exec_WaitOp : Exec_Command<"wait", [], ["getAwaitedCommand"]> {
  let summary = "Waits until a collective is done";
  let description = [{
    The ABI's `collective_wait` is given the number of the command that started the collective.

    Constraints: (C1) the token is that of an `exec.collective_start`.
  }];
  let arguments = (ins Exec_TokenType:$token, Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = "$token attr-dict";
  let extraClassDeclaration = [{
    CollectiveStartOp getStart();
  }];
  let hasVerifier = 1;
}

def Exec_WaitCarriedOp : Exec_Command<"wait_carried"> {
  let summary = "Waits until a collective of an earlier call is done";
  let description = [{
    An earlier call has started it with this number as `carried`. Where none is under way, as in
    a first step, it is done at once. The collective may read and write `buffers` until then:
    commands that touch them come before or after, as if this one wrote them.

    ```mlir
    exec.wait_carried 3, %w : memref<64xf32>
    ```

    Constraints: (C1) the number is positive.
  }];
  let arguments = (ins I32Attr:$carried, Variadic<Exec_FloatBuffer>:$buffers,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = "$carried `,` $buffers attr-dict `:` type($buffers)";
  let hasVerifier = 1;
}

#endif // OPTIMUS_DIALECT_EXEC_COMMUNICATIONOPS
