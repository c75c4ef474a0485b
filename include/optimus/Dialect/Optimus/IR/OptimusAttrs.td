//===- OptimusAttrs.td - Attributes of the optimus dialect --*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_ATTRS
#define OPTIMUS_DIALECT_OPTIMUS_ATTRS

include "mlir/IR/EnumAttr.td"
include "optimus/Dialect/Optimus/IR/OptimusBase.td"

def Optimus_MeshAxisAttr : Optimus_Attr<"MeshAxis", "axis"> {
  let summary = "A named mesh axis and its size";
  let description = [{
    An entry of `optimus.mesh`, which prints them as `"row" = 2`; on its own:

    ```mlir
    #optimus.axis<"row" = 2>
    ```

    Constraints: C1 and C4 of `optimus.mesh` for this axis; (C5) the name is 1 to
    255 letters, digits or underscores.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` $name `=` $size `>`";
}

def Optimus_ShardingAttr : Optimus_Attr<"Sharding", "sharding"> {
  let summary = "Which mesh axes cut which dimension of a tensor";
  let description = [{
    For each dimension the list of mesh axes that cut it, slowest first; axes
    that appear nowhere replicate. `unreduced` axes hold addends: the value is
    the sum over them.

    ```mlir
    #optimus.sharding<@mesh, [{"row"}, {}, {"col"} ]>
    #optimus.sharding<@mesh, [{"col"} ], unreduced = {"row"}>
    ```

    Unreduced axes are kept in alphabetic order, so that equal states are equal
    attributes.

    Constraints: (C1) no axis appears twice.
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    "::mlir::ArrayAttr":$dims,
    "::mlir::ArrayAttr":$unreduced
  );
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    AttrBuilderWithInferredContext<(ins "::mlir::FlatSymbolRefAttr":$mesh,
      "::llvm::ArrayRef<::llvm::SmallVector<::llvm::StringRef>>":$dims,
      CArg<"::llvm::ArrayRef<::llvm::StringRef>", "{}">:$unreduced)>
  ];
  let extraClassDeclaration = [{
    /// The replicated sharding of a tensor of this rank.
    static ShardingAttr getReplicated(::mlir::FlatSymbolRefAttr mesh, int64_t rank);
    int64_t getRank() const { return getDims().size(); }
    /// The axes that cut a dimension, slowest first.
    ::llvm::SmallVector<::llvm::StringRef> getDimAxes(int64_t dim) const;
    ::llvm::SmallVector<::llvm::StringRef> getUnreducedAxes() const;
    bool isUnreducedOver(::llvm::StringRef axis) const;
    /// True when no axis cuts any dimension and nothing is unreduced.
    bool isReplicated() const;
    ShardingAttr withUnreduced(::llvm::ArrayRef<::llvm::StringRef> axes) const;
    ShardingAttr withDimAxes(int64_t dim, ::llvm::ArrayRef<::llvm::StringRef> axes) const;
  }];
}

def Optimus_InitAttr : Optimus_Attr<"Init", "init"> {
  let summary = "The initial value of a parameter";
  let description = [{
    Constants, or normal with mean 0, drawn from a counter-based stream by the
    element's index in the whole tensor, so that every mesh starts alike.

    ```mlir
    #optimus.init<zeros>
    #optimus.init<ones>
    #optimus.init<normal, stddev = 0.02, stream = 3>
    ```

    Constraints: (C1) the kind is `zeros`, `ones` or `normal`; (C2) the
    standard deviation is not negative, and finite as an f32; (C3) the stream is
    not negative and below the reserved ones (`docs/dropout.md`).
  }];
  let parameters = (ins StringRefParameter<>:$kind, "::mlir::FloatAttr":$stddevAttr, "int64_t":$stream);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    double getStddev() const { return getStddevAttr().getValueAsDouble(); }
  }];
}

def Optimus_ProgramPhase : I32EnumAttr<"ProgramPhase", "which part of a step an operation belongs to", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"Recomputed", 2, "recomputed">,
  I32EnumAttrCase<"Optimizer", 3, "optimizer">
]> {
  let cppNamespace = "::mlir::optimus";
  let genSpecializedAttr = 0;
}

def Optimus_OriginAttr : Optimus_Attr<"Origin", "origin"> {
  let summary = "What a pass has made of what stands at a location";
  let description = [{
    The metadata of a fused location; [docs/provenance.md](../../docs/provenance.md)
    tells how passes keep it. The location inside names a module path and a line of source.

    * `phase`: `forward`, `backward`, `recomputed` or `optimizer`;
    * `result`: the number that the operation's first result has among those of
      the operation that it stands for. The gradient of operand k is
      result k of the backward;
    * `part`: what the operation computes for the one that it stands for, as
      `"row_moments"`: its results are none of that operation's;
    * `ordinal`: tells operations apart of which all this is equal.

    ```mlir
    #loc3 = loc("h.3.mlp.up"("gpt2.py":151:0))
    #loc4 = loc(fused<#optimus.origin<phase = backward, result = 1>>[#loc3])
    ```

    Constraints: (C1) the numbers are from 0 to 2^31 − 1.
  }];
  let parameters = (ins
    EnumParameter<Optimus_ProgramPhase>:$phase,
    DefaultValuedParameter<"int64_t", "0">:$result,
    OptionalParameter<"::mlir::StringAttr">:$part,
    DefaultValuedParameter<"int64_t", "0">:$ordinal
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // OPTIMUS_DIALECT_OPTIMUS_ATTRS
