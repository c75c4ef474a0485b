//===- CCLOps.td - The ccl dialect: what one rank does -----*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_OPS
#define OPTIMUS_DIALECT_CCL_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def CCL_Dialect : Dialect {
  let name = "ccl";
  let cppNamespace = "::mlir::ccl";
  let summary = "Collectives and distributed products on named mesh axes";
  let description = [{
    One program for all ranks. Local compute stays `optimus` operations on local
    types. A local tensor's type carries, as its encoding, what it is a part of:
    `tensor<8x128x96xf32, #ccl.local<[16, 128, 192], #optimus.sharding<@mesh,
    [{"row"}, {}, {"col"} ]>>>`. A tensor type without encoding is whole,
    replicated and unpadded.

    Every collective is the identity on its global value. Collectives have a
    memory effect on a communication resource, so no pass drops, merges or
    reorders them unawares: `--cse` keeps both of two equal collectives, and one
    whose result is unused stays. Canonicalization removes a collective only
    together with its inverse, and since one program serves all ranks, on all
    of them:

    * `all_gather(slice(x))` and `slice(all_gather(x))`, along one dimension and
      axis, are x;
    * `slice(all_reduce(x))`, over one axis and with no other use of the sum, is
      `reduce_scatter(x)`, which moves half as much.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
}

def CCL_LocalAttr : AttrDef<CCL_Dialect, "Local",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "local";
  let summary = "What a local tensor is a part of";
  let description = [{
    The shape of the whole, unpadded tensor and its sharding. A dimension of
    whole extent g, sharded by axes of product S, has local extent l with l·S ≥ g;
    the elements beyond g are padding.

    ```mlir
    // One rank's [8, 3] of a [16, 5], the columns padded to 6.
    tensor<8x3xf32, #ccl.local<[16, 5], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>>
    ```

    Constraints: (C1) shape, sharding and tensor have the same rank; (C2)
    extents are positive, with at most 2^48 elements in all. Where an operation of this dialect has such a type,
    on the mesh of its module: (C3) the sharding is on this mesh and names axes
    of it; (C4) l·S ≥ g in every dimension, and the padded whole has at most 2^48
    elements.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$shape,
                        "::mlir::optimus::ShardingAttr":$sharding);
  let assemblyFormat = "`<` `[` (`]`) : ($shape^ `]`)? `,` $sharding `>`";
  let genVerifyDecl = 1;
}

def CommunicationResource : Resource<"::mlir::ccl::CommunicationResource">;

def CCL_Tensor : Optimus_TensorOf<[F32, BF16, F16, I32]>;
def CCL_FloatTensor : Optimus_TensorOf<[F32, BF16, F16]>;
def CCL_F32Tensor : Optimus_TensorOf<[F32]>;
def CCL_IndexTensor : Optimus_TensorOf<[I32]>;
def CCL_FloatScalar : TensorRankOf<[F32], [0]>;

class CCL_Op<string mnemonic, list<Trait> traits = []>
    : Op<CCL_Dialect, mnemonic, traits>;

/// A collective over one mesh axis.
class CCL_Collective<string mnemonic, Type tensor = CCL_Tensor>
    : CCL_Op<mnemonic, [MemoryEffects<[MemWrite<CommunicationResource>]>, Optimus_SymbolicValue, Optimus_Rounding,
                        AllElementTypesMatch<["input", "result"]>]> {
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_AllGatherOp : CCL_Collective<"all_gather"> {
  let summary = "The parts along a dimension, put together on every rank of an axis";
  let description = [{
    ```mlir
    #sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"} ]>>
    %y = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x3xf32, #sharded>) -> tensor<4x6xf32>
    ```

    Constraints: (C1) the mesh has the axis; (C2) the axis is the fastest that
    shards dimension `dim` of the input and shards none of the result; (C3) input
    and result are parts of one tensor, and the result is as large along `dim`
    as all parts.
  }];
  let arguments = (ins CCL_Tensor:$input, StrAttr:$axis, I64Attr:$dim);
  let hasFolder = 1;
}

def CCL_AllReduceOp : CCL_Collective<"all_reduce", CCL_FloatTensor> {
  let summary = "The sum over an axis, on every rank of it";
  let description = [{
    Narrow elements are added up in f32, in rank order, and rounded once.

    ```mlir
    #partial = #ccl.local<[4], #optimus.sharding<@mesh, [{} ], unreduced = {"col"}>>
    %y = ccl.all_reduce %x {axis = "col"} : (tensor<4xf32, #partial>) -> tensor<4xf32>
    ```

    Constraints: (C1) the mesh has the axis; (C2) the input is unreduced over
    it and the result is the same without it; (C3) input and result are
    equally large parts of one tensor.
  }];
  let arguments = (ins CCL_FloatTensor:$input, StrAttr:$axis);
}

def CCL_ReduceScatterOp : CCL_Collective<"reduce_scatter", CCL_FloatTensor> {
  let summary = "The sum over an axis, sharded along a dimension";
  let description = [{
    Narrow elements are added up as `ccl.all_reduce` does.

    ```mlir
    #partial = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {} ], unreduced = {"col"}>>
    #sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"} ]>>
    %y = ccl.reduce_scatter %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32, #partial>) -> tensor<4x3xf32, #sharded>
    ```

    Constraints: (C1) the mesh has the axis; (C2) the input is unreduced over
    it; in the result it shards dimension `dim`, as that dimension's fastest
    axis; (C3) input and result are parts of one tensor, and the input is as
    large along `dim` as all parts.
  }];
  let arguments = (ins CCL_FloatTensor:$input, StrAttr:$axis, I64Attr:$dim);
}

def CCL_SliceOp : CCL_Op<"slice", [Optimus_SymbolicValue, Optimus_Rounding, Pure, AllElementTypesMatch<["input", "result"]>]> {
  let summary = "This rank's part of a tensor that every rank of an axis holds";
  let description = [{
    Local: no data moves between ranks.

    ```mlir
    #sharded = #ccl.local<[4, 6], #optimus.sharding<@mesh, [{}, {"col"} ]>>
    %y = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x3xf32, #sharded>
    ```

    Constraints: (C1) the mesh has the axis; (C2) in the result it shards
    dimension `dim`, as its fastest axis; in the input it shards none, nor is the
    input unreduced over it; (C3) input and result are parts of one tensor,
    and the input is as large along `dim` as all parts.
  }];
  let arguments = (ins CCL_Tensor:$input, StrAttr:$axis, I64Attr:$dim);
  let results = (outs CCL_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def CCL_MatmulOp : CCL_Op<"matmul", [
    Optimus_SymbolicValue, Optimus_MovesInPanels, Optimus_Rounding, MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "A distributed product of matrices";
  let description = [{
    The product of `optimus.matmul` of operands and result that are each sharded
    along both of their groups of dimensions. The tensor named by `stationary` (`"a"`,
    `"b"` or `"c"`, the result) stays where it is; of the index it lacks, the
    streamed one, `panels` panels move: over one axis for each of the two other
    tensors. Where each panel belongs to one rank, an operand's is broadcast and a
    result's reduced; where a panel has a slice of every rank's part, an operand's is
    gathered and a result's scattered. See `docs/products.md`.

    ```mlir
    optimus.mesh @mesh <["row" = 2, "col" = 3]>
    #x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>
    #w = #ccl.local<[12, 6], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>
    #y = #ccl.local<[8, 6], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>
    %y = ccl.matmul %x, %w {stationary = "c", panels = 6 : i64}
      : (tensor<4x4xf32, #x>, tensor<6x2xf32, #w>) -> tensor<4x2xf32, #y>
    ```

    Axes that shard a group alike in both of its tensors, as a data axis and
    `row` shard the batch, move nothing; axes of one rank shard nothing.

    Constraints: (C1) `stationary` is a, b or c; (C2) beyond that each tensor is
    sharded by one axis at most in each group, the fastest of its dimension, and
    both tensors by it along the same dimension of the group; (C3) `panels` is
    at most 64. Let E be the padded streamed dimension, or the rest of it after
    axes with equal shards, and L the least common multiple of the sizes of
    the axes that tensors move over. `panels` is a multiple of L and divides E,
    or it divides E/L; (C4) the two tensors that have a group have it with equal
    whole and padded extents; (C5) a group that the stationary tensor shares is
    sharded alike in both; (C6) the operands hold no partial sums; a moving
    result moves over an axis that shards the contracted index alike in both
    operands, and is summed over it; over all other such axes it is unreduced;
    (C7) a and b have one element type, and the result has it or f32. A narrow
    result that stays is rounded once, after all panels; one that moves is
    rounded on each rank before ranks' parts are added up.
  }];
  let arguments = (ins CCL_FloatTensor:$a, CCL_FloatTensor:$b,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$contracting,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       StrAttr:$stationary,
                       ConfinedAttr<I64Attr, [IntPositive]>:$panels);
  let results = (outs CCL_FloatTensor:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_HeadLossOp : CCL_Op<"head_loss", [
    Optimus_SymbolicValue, Optimus_Rounding, TokenTableOpInterface, MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "Head and loss with the vocabulary sharded by an axis";
  let description = [{
    `optimus.head_loss` with the table's rows sharded by `axis`. If `axis` also
    shards the last dimension of h, each chunk of h is gathered over it first.
    Row maxima, sums of exponentials and the target's logit are reduced over
    `axis`; padded rows of the vocabulary count as logits of −∞.

    ```mlir
    #h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>
    #table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {} ]>>
    #tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"} ]>>
    #sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
    %loss_sum, %real_count = ccl.head_loss %h, %table, %targets {axis = "col", chunk = 512 : i64}
      : (tensor<8x4xf32, #h>, tensor<6x8xf32, #table>, tensor<8xi32, #tokens>)
      -> (tensor<f32, #sum>, tensor<f32, #sum>)
    ```

    Constraints: (C1) the mesh has the axis and it alone shards the table's first
    dimension; (C2) the table has rank 2 and its second dimension is whole;
    (C3) h has the dimensions of targets, sharded alike, followed by the table's
    second one, which is whole in h or sharded by `axis`; (C4) the results are
    unreduced over the axes that shard targets; (C7) the bias, which may be left
    out, is the table's first dimension, sharded as it is; (C8) is C5 of `optimus.head_loss`,
    for a rank's tokens and vocabulary; (C9) h and the table have one element type.
  }];
  let arguments = (ins CCL_FloatTensor:$h, CCL_FloatTensor:$table, CCL_IndexTensor:$targets,
                       Optional<CCL_F32Tensor>:$bias,
                       StrAttr:$axis, ConfinedAttr<I64Attr, [IntPositive]>:$chunk);
  let results = (outs CCL_FloatScalar:$loss_sum, CCL_FloatScalar:$real_count);
  let assemblyFormat = [{
    $h `,` $table `,` $targets (`bias` `(` $bias^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def CCL_HeadLossGradOp : CCL_Op<"head_loss_grad", [
    Optimus_SymbolicValue, Optimus_Rounding, TokenTableOpInterface, MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "Head, loss and gradient with the vocabulary sharded by an axis";
  let description = [{
    `optimus.head_loss_grad` under the same conditions as `ccl.head_loss`. Each chunk
    of dh is reduce-scattered over `axis` if h is sharded by it, else all-reduced.
    dtable stays [v/n, h], unreduced over the axes that shard the tokens.

    ```mlir
    #h = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"} ]>>
    #table = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {} ]>>
    #dtable = #ccl.local<[11, 8], #optimus.sharding<@mesh, [{"col"}, {} ], unreduced = {"row"}>>
    #tokens = #ccl.local<[16], #optimus.sharding<@mesh, [{"row"} ]>>
    #sum = #ccl.local<[], #optimus.sharding<@mesh, [], unreduced = {"row"}>>
    %loss_sum, %real_count, %dh, %dtable = ccl.head_loss_grad %h, %table, %targets {axis = "col", chunk = 512 : i64}
      : (tensor<8x4xf32, #h>, tensor<6x8xf32, #table>, tensor<8xi32, #tokens>)
      -> (tensor<f32, #sum>, tensor<f32, #sum>, tensor<8x4xf32, #h>, tensor<6x8xf32, #dtable>)
    ```

    Constraints: C1 to C4 and C7 to C9 of `ccl.head_loss`; (C5) dh has the type of
    h, or is that in f32; (C6) dtable is as the table, and dbias as the bias if there is one,
    unreduced over the axes that shard targets.
  }];
  let arguments = (ins CCL_FloatTensor:$h, CCL_FloatTensor:$table, CCL_IndexTensor:$targets,
                       Optional<CCL_F32Tensor>:$bias,
                       StrAttr:$axis, ConfinedAttr<I64Attr, [IntPositive]>:$chunk);
  let results = (outs CCL_FloatScalar:$loss_sum, CCL_FloatScalar:$real_count,
                      CCL_FloatTensor:$dh, CCL_F32Tensor:$dtable,
                      Optional<CCL_F32Tensor>:$dbias);
  let assemblyFormat = [{
    $h `,` $table `,` $targets (`bias` `(` $bias^ `)`)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // OPTIMUS_DIALECT_CCL_OPS
