//===- ExecBase.td - What all of the exec dialect shares ---*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_BASE
#define OPTIMUS_DIALECT_EXEC_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Exec/IR/ExecInterfaces.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::mlir::exec";
  let summary = "The device program: commands on flat buffers";
  let description = [{
    The program of one rank as the runtime executes it. Every buffer is a flat
    `memref<NxT>` of f32, f64, bf16, f16 or i32, with N from 1 (a scalar) to
    2^48; the shapes and leading dimensions of matrices are attributes of the
    commands, in elements, with the meanings given in
    `support/schema/program.fbs` for the action of the command. One program
    serves all ranks.

    A buffer lies in the device's memory, or with `#exec<space host>` or
    `#exec<space file>` in the host's or in a file. Only copies reach these; one
    between two spaces runs on a queue of its direction, beside computation.

    A function of this level takes what the manifest lists as its arguments
    and returns nothing. Buffers are `exec.alloc` until
    `--optimus-place-buffers` gives each an `exec.arena_slot` of the arena of its space; arenas are then
    the function's first arguments, that of the device before others. The result of `exec.slice`, `exec.slice_rank`
    and `exec.select_rank` is a view: it keeps its base alive.

    Starts and waits have a memory effect on a communication resource besides those of their
    buffers, and every buffer is an allocation of its own, in an arena too: `--canonicalize` and `--cse`
    leave all commands where they are, and merge no two buffers.

    On a function, `--optimus-schedule` leaves `exec.schedule`, a dictionary of
    predicted times and of the cost of the schedule, and `--optimus-offload`
    leaves `exec.paging`, its copies between memory spaces and their time.
    `--optimus-place-buffers` leaves on a function `exec.arena_bytes`,
    `exec.lower_bound_bytes`, `exec.peak_bytes` (a dictionary by category, at
    the time of the peak), `exec.communication` (per mesh axis, bytes and
    messages) and `exec.commands`. For the manifest, the module keeps
    `exec.source_hash` and `exec.rounding`. With `exec.lanes`, which
    `--optimus-lanes` sets, so many programs run side by side: each lane has all arguments for
    itself, and a command is done once a lane. Types and sizes are those of one lane. Arguments of functions keep
    `exec.local_type`, the type of the tensor in a buffer, and `exec.access`,
    how commands access it (`read`, `write`, `update`). `exec.kernel` marks
    functions for launches, and `exec.computes` describes their kernel: its kind
    and parameters. Types and bounds of all of them are verified, and other
    names that begin with `exec.` are errors.
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
    static constexpr llvm::StringLiteral kPaging = "exec.paging";
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
    /// On the module: what rounding does to gradients and logits, by binding.
    static constexpr llvm::StringLiteral kRounding = "exec.rounding";
    /// On the module: how many programs that differ in data alone run as lanes of
    /// this one, an i64 from 2. Without it there is one.
    static constexpr llvm::StringLiteral kLanes = "exec.lanes";
    /// On the module, for --optimus-exec-to-llvm: the manifest.
    static constexpr llvm::StringLiteral kManifest = "exec.manifest";
    /// On a function: it is a kernel.
    static constexpr llvm::StringLiteral kKernel = "exec.kernel";
    /// On a kernel: what it computes, a dictionary of its `kind` and parameters.
    static constexpr llvm::StringLiteral kComputes = "exec.computes";

    /// The attributes of the numbers from 0 on. To look up each costs more than all else
    /// of numbering, and the functions of a module have the same.
    ::llvm::SmallVector<::mlir::IntegerAttr> getNumbers(size_t count);

  private:
    std::mutex numbersLock;
    std::vector<::mlir::IntegerAttr> numbers;
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
  I32EnumAttrCase<"Mul", 2, "mul">,
  I32EnumAttrCase<"BiasGrad", 3, "bias_grad">
]>;
def Exec_EpilogueAttr : Exec_EnumAttr<Exec_Epilogue, "epilogue">;

def Exec_Blocks : Exec_I32Enum<"Blocks", "how a packed weight is held", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Int8", 1, "int8">,
  I32EnumAttrCase<"Int4", 2, "int4">,
  I32EnumAttrCase<"BF16", 3, "bf16">
]>;
def Exec_BlocksAttr : Exec_EnumAttr<Exec_Blocks, "blocks">;

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

def Exec_Buffer : Exec_BufferOf<[F32, F64, BF16, F16, I32], "1 to 2^48 f32, f64, bf16, f16 or i32", Exec_Extent>;
/// What products, attention and collectives take: narrow types too.
def Exec_FloatBuffer : Exec_BufferOf<[F32, BF16, F16], "1 to 2^48 f32, bf16 or f16", Exec_Extent>;
/// What products read as B: words are blocks of few bits.
def Exec_WeightBuffer : Exec_BufferOf<[F32, BF16, F16, I32], "1 to 2^48 f32, bf16, f16 or i32", Exec_Extent>;
def Exec_F32Buffer : Exec_BufferOf<[F32], "1 to 2^48 f32", Exec_Extent>;
def Exec_IndexBuffer : Exec_BufferOf<[I32], "1 to 2^48 i32", Exec_Extent>;
def Exec_Arena : Exec_BufferOf<[I8], "at most 2^52 bytes", Exec_ExtentOf<"0", "kMaxBytes">, Exec_InAnySpace>;
/// What may lie in any memory: views, and what is copied.
def Exec_AnyBuffer : Exec_BufferOf<[F32, F64, BF16, F16, I32], "1 to 2^48 f32, f64, bf16, f16 or i32", Exec_Extent, Exec_InAnySpace>;
def Exec_AnyFloatBuffer : Exec_BufferOf<[F32, BF16, F16], "1 to 2^48 f32, bf16 or f16", Exec_Extent, Exec_InAnySpace>;
def Exec_Scalar : AnyTypeOf<[I64, F32]>;

/// What the address of a buffer is a multiple of, in bytes.
def Exec_Alignment : ConfinedAttr<I64Attr, [IntMinValue<64>, IntMaxValue<1048576>, IntPowerOf2]>;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

/// A command of the device program. Its memory effects follow from its accesses,
/// and from whether it communicates.
/// `answers` are the methods that it defines although they have a default.
class Exec_Command<string mnemonic, list<Trait> traits = [], list<string> answers = []>
    : Exec_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<CommandOpInterface, !listconcat(["getAccesses"], answers)>,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>], traits)> {
  code accessDefinition = [{
    void $cppClass::getEffects(::llvm::SmallVectorImpl<
        ::mlir::SideEffects::EffectInstance<::mlir::MemoryEffects::Effect>> &effects) {
      ::mlir::exec::addCommandEffects(getOperation(), effects);
    }
  }];
  let extraClassDefinition = accessDefinition;
}

/// The number of a command: the same on every rank, stable between steps.
def Exec_CommandId : OptionalAttr<I32Attr>;
/// Where a command runs: "compute", for copies between memory spaces "fetch" into
/// the device's and "store" out of it, or the mesh axis that a collective moves
/// on. Commands of a queue begin in order; those of the first three are done in
/// order.
def Exec_Queue : OptionalAttr<StrAttr>;
/// Numbers of earlier commands that must be done first, besides those of its
/// queue.
def Exec_After : OptionalAttr<DenseI32ArrayAttr>;

#endif // OPTIMUS_DIALECT_EXEC_BASE
