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
  let summary = "The mesh axes that shard each dimension of a tensor";
  let description = [{
    For each dimension the list of mesh axes that shard it, slowest first; axes
    that appear nowhere replicate. `unreduced` axes hold partial sums: the value is
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
    /// The axes that shard a dimension, slowest first.
    ::llvm::SmallVector<::llvm::StringRef> getDimAxes(int64_t dim) const;
    ::llvm::SmallVector<::llvm::StringRef> getUnreducedAxes() const;
    bool isUnreducedOver(::llvm::StringRef axis) const;
    /// True when no axis shards any dimension and nothing is unreduced.
    bool isReplicated() const;
    ShardingAttr withUnreduced(::llvm::ArrayRef<::llvm::StringRef> axes) const;
    ShardingAttr withDimAxes(int64_t dim, ::llvm::ArrayRef<::llvm::StringRef> axes) const;
  }];
}

def Optimus_InitAttr : Optimus_Attr<"Init", "init"> {
  let summary = "The initial value of a parameter";
  let description = [{
    Constants, or normal with mean 0, or uniform between a bound and its negative, drawn from a counter-based stream by the
    element's index in the whole tensor, so that every mesh starts alike.

    ```mlir
    #optimus.init<zeros>
    #optimus.init<ones>
    #optimus.init<constant, value = 0.5>
    #optimus.init<normal, stddev = 0.02, stream = 3>
    #optimus.init<uniform, bound = 0.25, stream = 4>
    ```

    Constraints: (C1) the kind is `zeros`, `ones`, `constant`, `normal` or `uniform`; (C2) the
    standard deviation and the bound are not negative, and like the constant finite as an f32;
    (C3) the stream is not negative and below the reserved ones (`docs/dropout.md`).
  }];
  let parameters = (ins StringRefParameter<>:$kind, "::mlir::FloatAttr":$numberAttr, "int64_t":$stream);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The standard deviation, the bound or the constant; 0 where the kind has none.
    double getNumber() const { return getNumberAttr().getValueAsDouble(); }
    bool isDrawn() const { return getKind() == "normal" || getKind() == "uniform"; }
  }];
}

def Optimus_PackedAttr : Optimus_Attr<"Packed", "packed"> {
  let summary = "The tensor of a checkpoint in which a parameter lies with others";
  let description = [{
    The tensor is rows of `row` elements, whatever its shape. Of each the parameter has
    those from `begin` on: its own elements in their order, the same number a row. So
    GPT-NeoX packs queries, keys and values head by head:

    ```mlir
    #optimus.packed<"query_key_value.weight", [180, 60], row = 1800, begin = 600>
    ```

    Constraints: (C1) the shape is a tensor's; (C2) rows fill it; (C3) `begin` lies in
    a row.
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    ArrayRefParameter<"int64_t">:$shape,
    "int64_t":$row,
    "int64_t":$begin
  );
  let assemblyFormat =
      "`<` $name `,` `[` $shape `]` `,` `row` `=` $row `,` `begin` `=` $begin `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getNumRows() const;
    /// Whether rows are long enough for a parameter of so many elements.
    bool holds(int64_t elements) const;
  }];
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

class Optimus_I32Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::optimus";
  let genSpecializedAttr = 0;
}

def Optimus_Lifetime : Optimus_I32Enum<"Lifetime", "how long what a buffer holds is needed", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"State", 1, "state">,
  I32EnumAttrCase<"Sequence", 2, "sequence">,
  I32EnumAttrCase<"Call", 3, "call">
]>;

def Optimus_Reset : Optimus_I32Enum<"Reset", "when a buffer is set back to its initial value", [
  I32EnumAttrCase<"Never", 0, "never">,
  I32EnumAttrCase<"Step", 1, "step">,
  I32EnumAttrCase<"Sequence", 2, "sequence">,
  I32EnumAttrCase<"Call", 3, "call">
]>;

def Optimus_FilledBy : Optimus_I32Enum<"FilledBy", "who writes a buffer", [
  I32EnumAttrCase<"Program", 0, "program">,
  I32EnumAttrCase<"Data", 1, "data">,
  I32EnumAttrCase<"Host", 2, "host">
]>;

def Optimus_SavedIn : Optimus_I32Enum<"SavedIn", "the file of a checkpoint that a buffer is saved in", [
  I32EnumAttrCase<"Nowhere", 0, "nowhere">,
  I32EnumAttrCase<"Model", 1, "model">,
  I32EnumAttrCase<"Optimizer", 2, "optimizer">
]>;

def Optimus_BufferAttr : Optimus_Attr<"Buffer", "buffer"> {
  let summary = "What the runtime keeps for an argument or a result";
  let description = [{
    `optimus.binding` on an argument or a result of a function says with this
    attribute which buffer of the model the runtime passes there. All functions
    that name a buffer, by its role and its parameter, share it and describe it
    alike. The manifest lists them (`docs/manifest.md`), and nothing later looks
    at a name to know what a buffer is.

    ```mlir
    #optimus.buffer<role = "tokens", lifetime = call, filled_by = data>
    #optimus.buffer<role = "lr", lifetime = call, filled_by = host>
    #optimus.buffer<role = "grad_norm", lifetime = call>
    #optimus.buffer<role = "exp_avg", of = "wte.weight", lifetime = state, init = <zeros>, saved_in = optimizer>
    #optimus.buffer<role = "grad_sum", of = "wte.weight", lifetime = sequence, init = <zeros>, reset = step>
    #optimus.buffer<role = "packed", of = "wte.weight", lifetime = sequence>
    ```

    `lifetime`: `parameter` and `state` are there as long as the model, `sequence`
    for a sequence of calls (the microbatches of a step, the tokens of a text that
    is decoded), `call` for one call. `reset` says when the buffer is set back to
    `init`: never, before the first call of a `step`, of a `sequence`, or before
    each `call`. `filled_by` says who writes it: the `program` alone, the `data`
    (tokens and targets), or the `host`, which sets scalars and random words.

    Constraints: (C1) `role` and `of` are names of 1 to 255 bytes of UTF-8 without
    control characters and colons; (C2) the lifetime is `parameter` exactly where
    the role is "parameter", and that has `of`, its own name; (C3) the lifetime
    bounds the resets: a sequence's is reset every step or sequence, or never if
    it is prepared and belongs to a parameter, a state's
    perhaps, a call's perhaps at each call, and a parameter's never; (C4) a
    reset buffer has an initial value, not a drawn one; (C5) data and host fill
    what lives for a call, has no initial value and belongs to no parameter, and
    data tokens and targets; (C6) what is saved is a parameter or a state.
  }];
  let parameters = (ins
    StringRefParameter<>:$role,
    OptionalParameter<"::mlir::StringAttr">:$of,
    EnumParameter<Optimus_Lifetime>:$lifetime,
    OptionalParameter<"::mlir::optimus::InitAttr">:$init,
    DefaultValuedParameter<"::mlir::optimus::Reset", "::mlir::optimus::Reset::Never">:$reset,
    DefaultValuedParameter<"::mlir::optimus::FilledBy", "::mlir::optimus::FilledBy::Program">:$filled_by,
    DefaultValuedParameter<"::mlir::optimus::SavedIn", "::mlir::optimus::SavedIn::Nowhere">:$saved_in
  );
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// "ROLE", or "ROLE:OF" of what belongs to a parameter: one buffer, one
    /// name.
    std::string getName() const;
    /// Whether an entry of kind `prepare` makes it of its parameter.
    bool isPrepared() const;
  }];
}

def Optimus_EntryKind : Optimus_I32Enum<"EntryKind", "what a function is called for", [
  I32EnumAttrCase<"Train", 0, "train">,
  I32EnumAttrCase<"Eval", 1, "eval">,
  I32EnumAttrCase<"Grad", 2, "grad">,
  I32EnumAttrCase<"Accumulate", 3, "accumulate">,
  I32EnumAttrCase<"Update", 4, "update">,
  I32EnumAttrCase<"Forward", 5, "forward">,
  I32EnumAttrCase<"Prefill", 6, "prefill">,
  I32EnumAttrCase<"Decode", 7, "decode">,
  I32EnumAttrCase<"Score", 8, "score">,
  I32EnumAttrCase<"Prepare", 9, "prepare">,
  I32EnumAttrCase<"Other", 10, "other">
]>;

def Optimus_EntryAttr : Optimus_Attr<"Entry", "entry"> {
  let summary = "What a function of a library is called for";
  let description = [{
    `optimus.entry` on a function says what programs call it for; its name is for
    people. Of a function that reads a batch it has the number of sequences, and
    their length. Several functions may have one kind.

    ```mlir
    #optimus.entry<forward, batch = 16, sequence = 128>
    #optimus.entry<update>
    ```

    A step of training is `train`, or for microbatches `accumulate` and then
    `update`; `eval` is the loss on average over random draws, `grad` the loss with
    its gradients, `forward` the logits. Two kinds generate text: `prefill` puts the keys
    and values of a chunk of a sequence's tokens into a slot of a cache, and has the logits
    behind the last one; `decode` puts in those of one token a slot, and has the logits of
    the next. `score` is a prefill that has the log-probability of a given token behind
    each instead. `prepare` makes of parameters what
    other calls of a sequence read: packed weights. `other` is called by name.

    Constraints: (C1) batch and sequence are from 1 to 2^31 − 1, or both absent.
  }];
  let parameters = (ins
    EnumParameter<Optimus_EntryKind>:$kind,
    DefaultValuedParameter<"int64_t", "0">:$batch,
    DefaultValuedParameter<"int64_t", "0">:$sequence
  );
  let assemblyFormat = "`<` $kind (`,` `batch` `=` $batch^ `,` `sequence` `=` $sequence)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool readsBatch() const { return getBatch() > 0; }
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
  let summary = "The transformation behind an operation at a location";
  let description = [{
    The metadata of a fused location; [docs/provenance.md](../../docs/provenance.md)
    tells how passes keep it. The location inside names a module path and a line of source.

    * `phase`: `forward`, `backward`, `recomputed` or `optimizer`;
    * `result`: the number of the operation's first result among those of the
      operation it stands for. The gradient of operand k is result k of the
      backward;
    * `part`: the part of the other operation's work done by this one, as
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
