//===- ExecOps.td - The exec dialect: the device program ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_OPS
#define OPTIMUS_DIALECT_EXEC_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Exec/IR/ExecInterfaces.td"
include "optimus/Dialect/Optimus/IR/OptimusInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::mlir::exec";
  let summary = "The device program: commands on flat buffers";
  let description = [{
    The program of one rank as the runtime executes it. Every buffer is a flat
    `memref<NxT>` of f32, f64 or i32, with N from 1 (a scalar) to 2^48; the shapes and leading
    dimensions of matrices are attributes of the commands, in elements, and
    mean what `support/schema/program.fbs` says of the action
    that a command becomes. One program serves all ranks.

    A buffer lies in the device's memory, or with `#exec<space host>` or
    `#exec<space file>` in the host's or in a file. Only copies reach these; one
    between two spaces runs on a queue of its own, beside computation.

    A function of this level takes what the manifest lists as its arguments
    and returns nothing. Buffers are `exec.alloc` until
    `--optimus-place-buffers` gives each an `exec.arena_slot` of the arena of its space; arenas are then
    the function's first arguments, that of the device before others. The result of `exec.slice`, `exec.slice_rank`
    and `exec.select_rank` is a view: it keeps its base alive.

    `--optimus-schedule` leaves on a function `exec.schedule`, a dictionary of
    predicted times and of what the schedule costs.
    `--optimus-place-buffers` leaves on a function `exec.arena_bytes`,
    `exec.lower_bound_bytes`, `exec.peak_bytes` (a dictionary by category, at the
    time of the peak), `exec.communication` (per mesh axis, bytes and messages)
    and `exec.commands`. For the manifest, the module keeps `exec.source_hash`
    and `exec.rounding`, arguments of functions `exec.local_type`, the type of the
    tensor that a buffer holds, and `exec.access`, what commands do to it (`read`,
    `write`, `update`), and `exec.kernel` marks what commands launch.
    Types and bounds of all of them are verified, and other names that begin with
    `exec.` are errors.
  }];
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
  let extraClassDeclaration = [{
    static constexpr llvm::StringLiteral kArenaBytes = "exec.arena_bytes";
    static constexpr llvm::StringLiteral kLowerBoundBytes = "exec.lower_bound_bytes";
    static constexpr llvm::StringLiteral kPeakBytes = "exec.peak_bytes";
    static constexpr llvm::StringLiteral kCommunication = "exec.communication";
    static constexpr llvm::StringLiteral kSchedule = "exec.schedule";
    static constexpr llvm::StringLiteral kCommands = "exec.commands";
    /// On an argument of a function of commands: the type of the local tensor
    /// that its buffer holds, a TypeAttr.
    static constexpr llvm::StringLiteral kLocalType = "exec.local_type";
    /// On an argument of a function of commands: what they do to it, "read",
    /// "write" or, where a result takes over its memory, "update".
    static constexpr llvm::StringLiteral kAccess = "exec.access";
    static constexpr llvm::StringLiteral kAccessRead = "read";
    static constexpr llvm::StringLiteral kAccessWrite = "write";
    static constexpr llvm::StringLiteral kAccessUpdate = "update";
    /// On the module: the hash of the program that is compiled, in hexadecimal.
    static constexpr llvm::StringLiteral kSourceHash = "exec.source_hash";
    /// On the module: what rounding does to each result of `grad_step`, by binding.
    static constexpr llvm::StringLiteral kRounding = "exec.rounding";
    /// On the module, for --optimus-exec-to-llvm: the manifest.
    static constexpr llvm::StringLiteral kManifest = "exec.manifest";
    /// On a function: it is a kernel.
    static constexpr llvm::StringLiteral kKernel = "exec.kernel";
  }];
}

def Exec_TokenType : TypeDef<Exec_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "A collective that has been started";
}

//===----------------------------------------------------------------------===//
// Enumerations, with the values of the ABI
//===----------------------------------------------------------------------===//

class Exec_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::exec";
  let genSpecializedAttr = 0;
}
class Exec_EnumAttr<EnumAttrInfo info, string attrMnemonic>
    : EnumAttr<Exec_Dialect, info, attrMnemonic>;

def Exec_Epilogue : Exec_I32Enum<"Epilogue", "what happens to a product before it is stored", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Add", 1, "add">,
  I32EnumAttrCase<"Mul", 2, "mul">
]>;
def Exec_EpilogueAttr : Exec_EnumAttr<Exec_Epilogue, "epilogue">;

def Exec_Weight : Exec_I32Enum<"Weight", "which operand changes only between steps", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"A", 1, "a">,
  I32EnumAttrCase<"B", 2, "b">
]>;
def Exec_WeightAttr : Exec_EnumAttr<Exec_Weight, "weight">;

def Exec_CollectiveKind : Exec_I32Enum<"CollectiveKind", "a collective operation", [
  I32EnumAttrCase<"Broadcast", 0, "broadcast">,
  I32EnumAttrCase<"Reduce", 1, "reduce">,
  I32EnumAttrCase<"AllReduce", 2, "all_reduce">,
  I32EnumAttrCase<"AllGather", 3, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 4, "reduce_scatter">
]>;
def Exec_CollectiveKindAttr : Exec_EnumAttr<Exec_CollectiveKind, "collective">;

def Exec_Reduction : Exec_I32Enum<"Reduction", "how a collective combines elements", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">
]>;
def Exec_ReductionAttr : Exec_EnumAttr<Exec_Reduction, "reduction">;

def Exec_MemorySpace : Exec_I32Enum<"MemorySpace", "where the bytes of a buffer lie", [
  I32EnumAttrCase<"Device", 0, "device">,
  I32EnumAttrCase<"Host", 1, "host">,
  I32EnumAttrCase<"File", 2, "file">
]>;
/// Of a buffer's type; the device's memory has none.
def Exec_MemorySpaceAttr : Exec_EnumAttr<Exec_MemorySpace, "space">;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Of the device's memory.
def Exec_OnDevice : CPred<"!::llvm::cast<::mlir::MemRefType>($_self).getMemorySpace()">;
/// Of a memory that has a name, or of the device's.
def Exec_InAnySpace : CPred<
    "::mlir::exec::isMemorySpace(::llvm::cast<::mlir::MemRefType>($_self).getMemorySpace())">;

/// A flat buffer: one static dimension and the identity layout.
class Exec_BufferOf<list<Type> elements, string what, Pred size, Pred space = Exec_OnDevice> : Type<
    And<[MemRefRankOf<elements, [1]>.predicate, HasStaticShapePred,
         CPred<"::llvm::cast<::mlir::MemRefType>($_self).getLayout().isIdentity()">,
         space, size]>,
    "flat buffer of " # what, "::mlir::MemRefType">;

/// Bounds of `optimus-support/Sizes.h`, which keep bytes and sums in 64 bits.
class Exec_ExtentOf<string least, string most> : CPred<
    "::llvm::cast<::mlir::MemRefType>($_self).getNumElements() >= " # least #
    " && ::llvm::cast<::mlir::MemRefType>($_self).getNumElements() <= ::optimus_support::" # most>;
def Exec_Extent : Exec_ExtentOf<"1", "kMaxElements">;

def Exec_Buffer : Exec_BufferOf<[F32, F64, I32], "1 to 2^48 f32, f64 or i32", Exec_Extent>;
def Exec_FloatBuffer : Exec_BufferOf<[F32], "1 to 2^48 f32", Exec_Extent>;
def Exec_IndexBuffer : Exec_BufferOf<[I32], "1 to 2^48 i32", Exec_Extent>;
def Exec_Arena : Exec_BufferOf<[I8], "at most 2^52 bytes", Exec_ExtentOf<"0", "kMaxBytes">, Exec_InAnySpace>;
/// What may lie in any memory: views, and what is copied.
def Exec_AnyBuffer : Exec_BufferOf<[F32, F64, I32], "1 to 2^48 f32, f64 or i32", Exec_Extent, Exec_InAnySpace>;
def Exec_AnyFloatBuffer : Exec_BufferOf<[F32], "1 to 2^48 f32", Exec_Extent, Exec_InAnySpace>;
def Exec_Scalar : AnyTypeOf<[I64, F32]>;

//===----------------------------------------------------------------------===//
// Buffers and views
//===----------------------------------------------------------------------===//

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

def Exec_AllocOp : Exec_Op<"alloc", [MemoryEffects<[MemAlloc<DefaultResource>]>]> {
  let summary = "A buffer that has no place in the arena yet";
  let description = [{
    Uninitialised. `category` is what the planned peak is broken down by.
    There is no deallocation: a buffer lives from the first to the last command
    that uses it or a view of it. `values` are the ids of the values that it
    holds, one after another (`docs/provenance.md`), `name` is what a workspace is for.

    ```mlir
    %h = exec.alloc "activation" {values = ["h.0.mlp.up_product:0", "h.0.mlp.up:0"]} : memref<16384xf32>
    %p = exec.alloc "workspace" {name = "received panel", values = ["h.0.ln_2:0 panel 1"]} : memref<4096xf32>
    ```
  }];
  let arguments = (ins StrAttr:$category, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<StrArrayAttr>:$values);
  let results = (outs Exec_AnyBuffer:$buffer);
  let assemblyFormat = "$category attr-dict `:` type($buffer)";
}

def Exec_ArenaSlotOp : Exec_Op<"arena_slot", [Pure]> {
  let summary = "A buffer at a byte offset of the arena";
  let description = [{
    ```mlir
    %h = exec.arena_slot %arena[1024] "activation" : memref<1048576xi8> to memref<16384xf32>
    ```

    `category`, `name` and `values` are those of the `exec.alloc` that it was.

    Constraints: (C1) the offset is not negative and a multiple of 64; (C2) the
    buffer ends inside the arena, and lies in its memory space.
  }];
  let arguments = (ins Exec_Arena:$arena, I64Attr:$offset, StrAttr:$category,
                       OptionalAttr<StrAttr>:$name,
                       OptionalAttr<StrArrayAttr>:$values);
  let results = (outs Exec_AnyBuffer:$buffer);
  let assemblyFormat = [{
    $arena `[` $offset `]` $category attr-dict `:` type($arena) `to` type($buffer)
  }];
  let hasVerifier = 1;
}

def Exec_SliceOp : Exec_Op<"slice", [Pure]> {
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

def Exec_SliceRankOp : Exec_Op<"slice_rank", [Pure]> {
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

def Exec_SelectRankOp : Exec_Op<"select_rank", [Pure, AllTypesMatch<["mine", "other", "result"]>]> {
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

def Exec_RealExtentOp : Exec_Op<"real_extent", [Pure]> {
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

def Exec_PartOffsetOp : Exec_Op<"part_offset", [Pure]> {
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
// Commands
//===----------------------------------------------------------------------===//

/// A command of the device program. Its memory effects follow from its accesses.
class Exec_Command<string mnemonic, list<Trait> traits = []>
    : Exec_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>], traits)> {
  code accessDefinition = [{
    void $cppClass::getEffects(::llvm::SmallVectorImpl<
        ::mlir::SideEffects::EffectInstance<::mlir::MemoryEffects::Effect>> &effects) {
      ::mlir::exec::addAccessEffects(getAccesses(), effects);
    }
  }];
  let extraClassDefinition = accessDefinition;
}

/// The number of a command: the same on every rank, stable between steps.
def Exec_CommandId : OptionalAttr<I32Attr>;
/// Where a command runs: "compute", "copies" between memory spaces, or the mesh
/// axis that a collective moves on. Commands of a queue begin in order; those of
/// "compute" and "copies" are done in order.
def Exec_Queue : OptionalAttr<StrAttr>;
/// Numbers of earlier commands that must be done first, besides those of its
/// queue.
def Exec_After : OptionalAttr<DenseI32ArrayAttr>;

def Exec_GemmOp : Exec_Command<"gemm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<WorkOpInterface>]> {
  let summary = "A product of two matrices";
  let description = [{
    `C[m,n] = (accumulate ? C : 0) + op(A)[m,k]·op(B)[k,n] + bias[n]`, then
    `epilogue`: with `add`, plus `extra`; with `mul`, times `extra`, which is [m,n].
    With `trans_a`, A is stored as [k,m]; with `trans_b`, B as [n,k]. `weight` tells
    which operand is a parameter that changes only between steps.

    ```mlir
    exec.gemm %a, %b, %c {m = 128, n = 64, k = 32, lda = 32, ldb = 64, ldc = 64}
      : memref<4096xf32>, memref<2048xf32>, memref<8192xf32>
    ```

    Constraints: (C1) m, n and k are positive; (C2) leading dimensions are at
    least the row's length where there is more than one row, and from 0 to 2^48; (C3) every buffer holds its matrix, bias n
    elements; (C4) `extra` is there exactly if the epilogue is not `none`;
    (C5) C is none of the inputs.
  }];
  let arguments = (ins Exec_FloatBuffer:$a, Exec_FloatBuffer:$b, Exec_FloatBuffer:$c,
                       Optional<Exec_FloatBuffer>:$bias,
                       Optional<Exec_FloatBuffer>:$extra,
                       I64Attr:$m, I64Attr:$n, I64Attr:$k,
                       I64Attr:$lda, I64Attr:$ldb, I64Attr:$ldc,
                       DefaultValuedAttr<I64Attr, "0">:$ld_extra,
                       UnitAttr:$trans_a, UnitAttr:$trans_b, UnitAttr:$accumulate,
                       DefaultValuedAttr<Exec_EpilogueAttr, "::mlir::exec::Epilogue::None">:$epilogue,
                       DefaultValuedAttr<Exec_WeightAttr, "::mlir::exec::Weight::None">:$weight,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $a `,` $b `,` $c (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`extra` `(` $extra^ `:` type($extra) `)`)? attr-dict
    `:` type($a) `,` type($b) `,` type($c)
  }];
  let hasVerifier = 1;
}

def Exec_LaunchOp : Exec_Command<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a compiled kernel over an iteration space";
  let description = [{
    Calls `kernel(begin, end, buffers…, scalars…)`, a function of the module,
    on ranges that split [0, extent); iterations are independent, and fewer than
    `grain` of them are not worth a task. Every buffer is marked `read`, `write` or
    `update` (both); a buffer may appear twice, and then the kernel reads each
    element only in the iteration that writes it.

    ```mlir
    exec.launch @gelu extent 64 grain 8
      (read %x : memref<4096xf32>, write %y : memref<4096xf32>)
    exec.launch @embedding extent 64 grain 8 (read %table : memref<4096xf32>,
      read %tokens : memref<64xi32>, write %y : memref<4096xf32>) scalars (%offset : i64)
    ```

    Constraints: (C1) extent and grain are positive; (C2) there is one access
    for each buffer; (C3) the kernel is a function whose arguments are
    (index or i64) begin and end, then those of the buffers, then those of the scalars.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, I64Attr:$extent, I64Attr:$grain,
                       Variadic<Exec_Buffer>:$buffers,
                       Variadic<Exec_Scalar>:$scalars,
                       DenseI32ArrayAttr:$access,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $kernel `extent` $extent `grain` $grain
    `(` custom<LaunchBuffers>($buffers, type($buffers), $access) `)`
    (`scalars` `(` $scalars^ `:` type($scalars) `)`)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Bits of `access`.
    enum : int32_t { Read = 1, Write = 2, Update = Read | Write };
  }];
  let hasVerifier = 1;
}

def Exec_CopyOp : Exec_Command<"copy"> {
  let summary = "Copies a matrix, or fills one with zeros";
  let description = [{
    `dst[r, 0:cols] = src[r, 0:cols]` for each of `rows` rows; without src, zeros.

    ```mlir
    exec.copy %dst from %src : memref<256xf32> {rows = 8, cols = 16, src_ld = 32, dst_ld = 16}
      : memref<128xf32>
    exec.copy %dst {rows = 1, cols = 128, src_ld = 0, dst_ld = 128} : memref<128xf32>
    ```

    From one memory space to another it is asynchronous: it runs on the queue
    `copies`, and what touches its buffers waits for it.

    Constraints: (C1) rows and cols are positive; (C2) both buffers hold their
    matrix, and leading dimensions are as C2 of `exec.gemm` says; (C3) src and dst differ.
  }];
  let arguments = (ins Optional<Exec_AnyFloatBuffer>:$src, Exec_AnyFloatBuffer:$dst,
                       I64Attr:$rows, I64Attr:$cols, I64Attr:$src_ld, I64Attr:$dst_ld,
                       Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $dst (`from` $src^ `:` type($src))? attr-dict `:` type($dst)
  }];
  let hasVerifier = 1;
}

class Exec_AttentionCommand<string mnemonic>
    : Exec_Command<mnemonic, [DeclareOpInterfaceMethods<WorkOpInterface>]> {
  let hasVerifier = 1;
}

def Exec_AttentionOp : Exec_AttentionCommand<"attention"> {
  let summary = "Multi-head and grouped-query attention";
  let description = [{
    Each token has `heads` heads of q and `kv_heads` of k and v, of head_dim
    elements and next to each other; from one token to the next there are `q_ld`
    elements of q and `kv_ld` of k and of v, so that the three may be
    slices of one buffer. out is [batch, seq, heads, head_dim], lse [batch, heads, seq].
    With `lengths`, the tokens of a sequence see its first ones only, as many as
    its length says, which is from 1 to seq.

    ```mlir
    exec.attention %q, %k, %v, %out, %lse
      {batch = 1, seq = 8, heads = 2, kv_heads = 1, head_dim = 4, q_ld = 8, kv_ld = 4, causal}
      : memref<64xf32>, memref<32xf32>, memref<32xf32>, memref<64xf32>, memref<16xf32>
    ```

    Constraints: (C1) extents are positive and the buffers hold them; (C2)
    kv_heads divides heads; (C3) q_ld and kv_ld hold a token's heads and are at most 2^48; (C4)
    there is a length for each sequence.
  }];
  let arguments = (ins Exec_FloatBuffer:$q, Exec_FloatBuffer:$k, Exec_FloatBuffer:$v,
                       Exec_FloatBuffer:$out, Exec_FloatBuffer:$lse,
                       Optional<Exec_IndexBuffer>:$lengths,
                       I64Attr:$batch, I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       I64Attr:$head_dim, I64Attr:$q_ld, I64Attr:$kv_ld,
                       UnitAttr:$causal, Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse (`lengths` `(` $lengths^ `:` type($lengths) `)`)? attr-dict `:`
    type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse)
  }];
}

def Exec_AttentionGradOp : Exec_AttentionCommand<"attention_grad"> {
  let summary = "The gradient of attention";
  let description = [{
    Shapes are those of `exec.attention`; dout is like out and dq, dk and dv
    are like q, k and v.

    Constraints: those of `exec.attention`.
  }];
  let arguments = (ins Exec_FloatBuffer:$dout, Exec_FloatBuffer:$q, Exec_FloatBuffer:$k, Exec_FloatBuffer:$v,
                       Exec_FloatBuffer:$out, Exec_FloatBuffer:$lse,
                       Exec_FloatBuffer:$dq, Exec_FloatBuffer:$dk, Exec_FloatBuffer:$dv,
                       Optional<Exec_IndexBuffer>:$lengths,
                       I64Attr:$batch, I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads,
                       I64Attr:$head_dim, I64Attr:$q_ld, I64Attr:$kv_ld,
                       UnitAttr:$causal, Exec_CommandId:$id, Exec_Queue:$queue, Exec_After:$after);
  let assemblyFormat = [{
    $dout `,` $q `,` $k `,` $v `,` $out `,` $lse `,` $dq `,` $dk `,` $dv
    (`lengths` `(` $lengths^ `:` type($lengths) `)`)? attr-dict `:`
    type($dout) `,` type($q) `,` type($k) `,` type($v) `,` type($out) `,` type($lse) `,`
    type($dq) `,` type($dk) `,` type($dv)
  }];
}

def Exec_CollectiveStartOp : Exec_Command<"collective_start"> {
  let summary = "Starts a collective over a mesh axis";
  let description = [{
    A matrix [outer, inner] moves among the ranks that differ only in their
    index on `axis`, as the ABI says of `kind`. `root` matters to broadcast and reduce
    only. `src` may be `dst` for all_reduce, and on the root of a broadcast or reduce.
    Between start and wait nothing may write `src` or touch `dst`. `src` of a broadcast
    is read on the root only, `dst` of a reduce is written on the root only.

    ```mlir
    %t = exec.collective_start all_reduce sum over "col", %x to %x
      {outer = 1, inner = 64, src_ld = 64, dst_ld = 64} : memref<64xf32>, memref<64xf32>
    exec.wait %t
    ```

    Constraints: (C1) the mesh has the axis and the root lies on it; (C2) outer and inner are positive,
    leading dimensions as C2 of `exec.gemm` says; (C3) both buffers hold their matrix; (C4) exactly
    one command waits for the token; (C5) of the kinds without reduction, `reduction` is sum.
  }];
  let arguments = (ins Exec_CollectiveKindAttr:$kind, Exec_ReductionAttr:$reduction,
                       StrAttr:$axis, DefaultValuedAttr<I64Attr, "0">:$root,
                       Exec_FloatBuffer:$src, Exec_FloatBuffer:$dst,
                       I64Attr:$outer, I64Attr:$inner, I64Attr:$src_ld, I64Attr:$dst_ld,
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

def Exec_WaitOp : Exec_Command<"wait"> {
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

#endif // OPTIMUS_DIALECT_EXEC_OPS
