//===- ExecMemoryOps.td - Buffers, their views and copies --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_MEMORYOPS
#define OPTIMUS_DIALECT_EXEC_MEMORYOPS

include "optimus/Dialect/Exec/IR/ExecBase.td"

//===----------------------------------------------------------------------===//
// Buffers and views
//===----------------------------------------------------------------------===//

def Exec_AllocOp : Exec_Op<"alloc", [DeclareOpInterfaceMethods<BufferOpInterface>,
    MemoryEffects<[MemAlloc<DefaultResource>]>]> {
  let summary = "A buffer that has no place in the arena yet";
  let description = [{
    Uninitialised. `category` is what the planned peak is broken down by.
    There is no deallocation: a buffer lives from the first to the last command
    that uses it or a view of it. `values` are the ids of its values, one after
    another (`docs/provenance.md`), `name` is the purpose of a workspace. Its
    address is a multiple of `alignment` bytes, of 64 where there is none.

    ```mlir
    %h = exec.alloc "activation" {values = ["h.0.mlp.up_product:0", "h.0.mlp.up:0"]} : memref<16384xf32>
    %p = exec.alloc "workspace" {name = "received panel", values = ["h.0.ln_2:0 panel 1"]} : memref<4096xf32>
    ```
  }];
  let arguments = (ins StrAttr:$category, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<StrArrayAttr>:$values,
                       OptionalAttr<Exec_Alignment>:$alignment);
  let results = (outs Exec_AnyBuffer:$buffer);
  let assemblyFormat = "$category attr-dict `:` type($buffer)";
}

def Exec_ArenaSlotOp : Exec_Op<"arena_slot", [DeclareOpInterfaceMethods<BufferOpInterface>,
    MemoryEffects<[MemAlloc<DefaultResource>]>]> {
  let summary = "A buffer at a byte offset of the arena";
  let description = [{
    ```mlir
    %h = exec.arena_slot %arena[1024] "activation" : memref<1048576xi8> to memref<16384xf32>
    ```

    `category`, `name`, `values` and `alignment` are those of the `exec.alloc` that it was.

    Constraints: (C1) the offset is not negative and a multiple of the alignment; (C2) the
    buffer ends inside the arena, and lies in its memory space.
  }];
  let arguments = (ins Exec_Arena:$arena, I64Attr:$offset, StrAttr:$category,
                       OptionalAttr<StrAttr>:$name,
                       OptionalAttr<StrArrayAttr>:$values,
                       OptionalAttr<Exec_Alignment>:$alignment);
  let results = (outs Exec_AnyBuffer:$buffer);
  let assemblyFormat = [{
    $arena `[` $offset `]` $category attr-dict `:` type($arena) `to` type($buffer)
  }];
  let hasVerifier = 1;
}

/// `answers` are the methods that it defines although they have a default.
class Exec_View<string mnemonic, list<string> answers, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<BufferViewOpInterface, answers>, Pure], traits)>;

def Exec_SliceOp : Exec_View<"slice", ["getByteOffset"]> {
  let summary = "A part of a buffer";
  let description = [{
    ```mlir
    %panel = exec.slice %buffer[4096] : memref<8192xf32> to memref<4096xf32>
    ```

    Constraints: (C1) the part lies inside the buffer; (C2) elements have one type, and both one memory space;
    (C3) there are at most 8 views on the way to the buffer that is none.
  }];
  let arguments = (ins Exec_AnyBuffer:$buffer, I64Attr:$offset);
  let results = (outs Exec_AnyBuffer:$result);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer) `to` type($result)";
  let hasVerifier = 1;
}

def Exec_SliceRankOp : Exec_View<"slice_rank", ["getByteOffset"]> {
  let summary = "The part of a buffer that belongs to this rank";
  let description = [{
    Starts at element `index·stride`, where index is this rank's combined
    index on `axes`, slowest first.

    ```mlir
    %mine = exec.slice_rank %whole over ["row"] stride 4096 : memref<8192xf32> to memref<4096xf32>
    ```

    Constraints: (C1) the mesh has the axes, which are distinct; (C2) every
    rank's part lies inside the buffer, and the stride is from 0 to 2^48; (C3)
    is C2 and (C4) C3 of `exec.slice`.
  }];
  let arguments = (ins Exec_AnyBuffer:$buffer, StrArrayAttr:$axes, I64Attr:$stride);
  let results = (outs Exec_AnyBuffer:$result);
  let assemblyFormat = [{
    $buffer `over` $axes `stride` $stride attr-dict `:` type($buffer) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Exec_SelectRankOp : Exec_View<"select_rank", ["getChoice"],
    [AllTypesMatch<["mine", "other", "result"]>]> {
  let summary = "One of two buffers, by this rank's index on an axis";
  let description = [{
    `mine` on the ranks whose index on `axis` is `index`, else `other`. So the
    root of a broadcast uses its own panel where it lies.

    ```mlir
    %panel = exec.select_rank "col" is 1, %own, %received : memref<4096xf32>
    ```

    Constraints: (C1) the mesh has the axis and the index lies on it; (C2) is C3
    of `exec.slice`.
  }];
  let arguments = (ins StrAttr:$axis, I64Attr:$index, Exec_AnyBuffer:$mine, Exec_AnyBuffer:$other);
  let results = (outs Exec_AnyBuffer:$result);
  let assemblyFormat = "$axis `is` $index `,` $mine `,` $other attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

class Exec_RankNumber<string mnemonic>
    : Exec_Op<mnemonic, [DeclareOpInterfaceMethods<RankNumberOpInterface>, Pure]>;

def Exec_RealExtentOp : Exec_RankNumber<"real_extent"> {
  let summary = "How many elements of this rank's part of a dimension are real";
  let description = [{
    `clamp(total − index·local, 0, local)`, with this rank's combined index on
    `axes`, slowest first.

    ```mlir
    %n = exec.real_extent 96 of 190 over ["col"]
    ```

    Constraints: (C1) the mesh has the axes, which are distinct; (C2) extents are
    positive, the parts cover the whole, and they have at most 2^48 elements together.
  }];
  let arguments = (ins I64Attr:$local, I64Attr:$total, StrArrayAttr:$axes);
  let results = (outs I64:$result);
  let assemblyFormat = "$local `of` $total `over` $axes attr-dict";
  let hasVerifier = 1;
}

def Exec_PartOffsetOp : Exec_RankNumber<"part_offset"> {
  let summary = "Where this rank's part of a dimension begins";
  let description = [{
    `index·local`, with this rank's combined index on `axes`, slowest first.

    ```mlir
    %row = exec.part_offset 128 over ["col"]
    ```

    Constraints: (C1) the mesh has the axes, which are distinct; (C2) all parts
    have from 0 to 2^48 elements together.
  }];
  let arguments = (ins I64Attr:$local, StrArrayAttr:$axes);
  let results = (outs I64:$result);
  let assemblyFormat = "$local `over` $axes attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

def Exec_CopyOp : Exec_Command<"copy", [], ["getOwnQueue", "needsOperandsApart", "getCommandLag"]> {
  let summary = "Copies a matrix, or fills one with zeros";
  let description = [{
    `dst[r, 0:cols] = src[r, 0:cols]` for each of `rows` rows; without src, zeros.

    ```mlir
    exec.copy %dst from %src : memref<256xf32> {rows = 8, cols = 16, src_ld = 32, dst_ld = 16}
      : memref<128xf32>
    exec.copy %dst {rows = 1, cols = 128, src_ld = 0, dst_ld = 128} : memref<128xf32>
    ```

    From one memory space to another it is asynchronous: it runs on the queue
    `fetch`, or `store` where it leaves the device's memory, and what touches its
    buffers waits for it. They stay in place while `lag` more commands begin, so
    that it is done behind these and nobody has to wait for the memory. With
    `kernel` it is a launch of that kernel, on src and dst, in place of the device's
    own copy.

    Constraints: (C1) rows and cols are positive; (C2) both buffers hold their
    matrix, and leading dimensions are as C2 of `exec.gemm` says; (C3) src and dst differ;
    (C4) they have one element type; (C5) only a copy between memory spaces lags;
    (C6) a copy between them, or of zeros, has no kernel.
  }];
  let arguments = (ins Optional<Exec_AnyFloatBuffer>:$src, Exec_AnyFloatBuffer:$dst,
                       I64Attr:$rows, I64Attr:$cols, I64Attr:$src_ld, I64Attr:$dst_ld,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$lag,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $dst (`from` $src^ `:` type($src))? attr-dict `:` type($dst)
  }];
  let hasVerifier = 1;
}

#endif // OPTIMUS_DIALECT_EXEC_MEMORYOPS
