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
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "optimus/Dialect/Optimus/IR/OptimusAttrs.td"

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
    memory effect on a communication resource, so no pass drops or reorders
    them on some ranks only.
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
    whole extent g, cut by axes of product S, has local extent l with l·S ≥ g;
    the elements beyond g are padding.

    Constraints: (C1) shape, sharding and tensor have the same rank.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$shape,
                        "::mlir::optimus::ShardingAttr":$sharding);
  let assemblyFormat = "`<` `[` (`]`) : ($shape^ `]`)? `,` $sharding `>`";
  let genVerifyDecl = 1;
}

def CommunicationResource : Resource<"::mlir::ccl::CommunicationResource">;

class CCL_Op<string mnemonic, list<Trait> traits = []>
    : Op<CCL_Dialect, mnemonic, traits>;

/// A collective over one mesh axis.
class CCL_Collective<string mnemonic> : CCL_Op<mnemonic,
    [MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_AllReduceOp : CCL_Collective<"all_reduce"> {
  let summary = "The sum over an axis, on every rank of it";
  let description = [{
    ```mlir
    %y = ccl.all_reduce %x {axis = "col"} : (tensor<4xf32, …unreduced = {"col"}…>) -> tensor<4xf32>
    ```

    Constraints: (C1) the mesh has the axis; (C2) the input is unreduced over
    it and the result is the same without it.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$axis);
}

def CCL_ReduceScatterOp : CCL_Collective<"reduce_scatter"> {
  let summary = "The sum over an axis, cut along a dimension";
  let description = [{
    Constraints: (C1) the mesh has the axis; (C2) the input is unreduced over
    it; in the result it cuts dimension `dim`, as that dimension's fastest
    axis.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$axis, I64Attr:$dim);
}

def CCL_AllGatherOp : CCL_Collective<"all_gather"> {
  let summary = "The parts along a dimension, put together on every rank of an axis";
  let description = [{
    Constraints: (C1) the mesh has the axis; (C2) the axis is the fastest that
    cuts dimension `dim` of the input and cuts none of the result.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$axis, I64Attr:$dim);
}

def CCL_ConcatOp : CCL_Collective<"concat"> {
  let summary = "Each rank's own last dimension, side by side on every rank of an axis";
  let description = [{
    Unlike the other collectives its result is a new global value: rank r's
    input stands at [r·n, (r+1)·n) of the last dimension. It serves values that are
    statistics of a rank's part, as the moments of a row.

    Constraints: (C1) the mesh has the axis; (C2) the result's last dimension is
    the input's times the axis's size.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$axis);
}

def CCL_SliceOp : CCL_Op<"slice", [Pure]> {
  let summary = "This rank's part of a tensor that every rank of an axis holds";
  let description = [{
    Local: no data moves between ranks.

    Constraints: (C1) the mesh has the axis; (C2) in the result it cuts
    dimension `dim`, as its fastest axis; in the input it cuts none.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$axis, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_MatmulOp : CCL_Op<"matmul", [MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "A distributed product of matrices";
  let description = [{
    The product of `optimus.matmul` of operands and result that are each cut
    along both of their groups of dimensions. The tensor named by `stationary` (`"a"`,
    `"b"` or `"c"`, the result) stays where it is; of the index it lacks, the
    streamed one, `panels` panels move: over one axis for each of the two other
    tensors, by broadcast where the tensor is an operand, by reduction where
    it is the result. See `docs/products.md`.

    ```mlir
    %y = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64}
      : (tensor<4x8x8xf32, …>, tensor<8x8xf32, …>) -> tensor<4x8x8xf32, …>
    ```

    Constraints: (C1) `stationary` is a, b or c; (C2) each of the three tensors
    is cut by one axis at most in each group, and the streamed index by the
    axis that does not cut the other group of the same tensor; (C3) `panels` is
    a multiple of both axes' sizes and divides the padded streamed dimension.
  }];
  let arguments = (ins AnyRankedTensor:$a, AnyRankedTensor:$b,
                       DefaultValuedAttr<I64Attr, "1">:$contracting,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       StrAttr:$stationary, I64Attr:$panels);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_HeadLossOp : CCL_Op<"head_loss", [MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "Head and loss with the vocabulary cut by an axis";
  let description = [{
    `optimus.head_loss` with the table's rows cut by `axis`. If `axis` also
    cuts the last dimension of h, each chunk of h is gathered over it first.
    Row maxima, sums of exponentials and the target's logit are reduced over
    `axis`; padded rows of the vocabulary count as logits of −∞.

    Constraints: (C1) the mesh has the axis and it cuts the table's first
    dimension; (C2) the table's second dimension is whole; (C3) h's last
    dimension is whole or cut by `axis`.
  }];
  let arguments = (ins AnyRankedTensor:$h, AnyRankedTensor:$table,
                       AnyRankedTensor:$targets, StrAttr:$axis, I64Attr:$chunk);
  let results = (outs AnyRankedTensor:$loss_sum, AnyRankedTensor:$real_count);
  let assemblyFormat = "$h `,` $table `,` $targets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def CCL_HeadLossGradOp : CCL_Op<"head_loss_grad", [MemoryEffects<[MemWrite<CommunicationResource>]>]> {
  let summary = "Head, loss and gradient with the vocabulary cut by an axis";
  let description = [{
    `optimus.head_loss_grad` under the same conditions as `ccl.head_loss`. Each chunk
    of dh is reduce-scattered over `axis` if h is cut by it, else all-reduced.
    dtable stays [v/n, h], unreduced over the axes that cut the tokens.

    Constraints: C1 to C3 of `ccl.head_loss`; (C4) dh has the type of h.
  }];
  let arguments = (ins AnyRankedTensor:$h, AnyRankedTensor:$table,
                       AnyRankedTensor:$targets, StrAttr:$axis, I64Attr:$chunk);
  let results = (outs AnyRankedTensor:$loss_sum, AnyRankedTensor:$real_count,
                      AnyRankedTensor:$dh, AnyRankedTensor:$dtable);
  let assemblyFormat = "$h `,` $table `,` $targets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // OPTIMUS_DIALECT_CCL_OPS
