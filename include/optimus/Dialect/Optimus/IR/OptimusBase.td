//===- OptimusBase.td - The optimus dialect ----------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_BASE
#define OPTIMUS_DIALECT_OPTIMUS_BASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Optimus_Dialect : Dialect {
  let name = "optimus";
  let cppNamespace = "::mlir::optimus";
  let summary = "Transformer programs on whole tensors, with sharding annotations";
  let description = [{
    The level at which a model is written: values are whole tensors and every
    operation has its serial semantics, whatever mesh the program will run on.
    Shardings are annotations: they change the place of values, never the
    values.

    A builder writes one function,
    `@loss(params…, tokens, targets) -> (loss_sum, real_count)`; a program with
    random draws has one more argument, `random`, the words they depend on
    (`optimus.dropout`). Arguments that are parameters carry

    * `optimus.param`: the parameter's name in a checkpoint;
    * `optimus.hf_shape`: its shape there, where that differs;
    * `optimus.packed`: the tensor there, where it has several parameters;
    * `optimus.init`: an `#optimus.init` attribute;
    * `optimus.dims`: the names of its dimensions, as `["hidden", "heads"]`.

    The compiler infers what values are to a sharding strategy, and keeps it in
    `optimus.role`, as `"first in.hidden,out.ffn of h.0.mlp.c_fc.weight"`
    (`docs/strategies.md`): on arguments, and on operations for their first result (or
    `optimus.result_roles`, one for each result). A program that has a role already
    keeps it. Operations may carry
    `optimus.shardings`, one sharding for each result (or `unit` for a result
    that has none): absent means undecided. Function arguments carry
    `optimus.sharding`. `optimus.donates = k` on an argument promises that
    result k takes over its buffer. The module carries `optimus.model`, what the
    runtime must know of the model.

    These attributes are verified at every level, since the manifest is made of
    them:

    * (A1) `optimus.model` is a dictionary in which `batch`, `sequence` and
      `vocabulary` are from 1 to 2^31 − 1. `padded_vocabulary`, if there is one, is
      from `vocabulary` to 2^31 − 1: at least so many rows have tables of the
      vocabulary, zeros after it. `objective`, if there is one, is
      `next_token` or `masked_token`; that has `mask_token` and may have `pad_token`,
      tokens below `vocabulary`. `config`, if there is one, is the text of a JSON
      object: the model's config.json, which checkpoints get. Other members are the
      builder's own.
    * (A2) `optimus.param` is 1 to 255 bytes of UTF-8 without control characters
      and colons, not `__metadata__`, which safetensors keeps for itself, and no
      state of an optimizer, as `exp_avg.…`.
    * (A3) `optimus.hf_shape` has at most 16 positive extents, and as many elements as
      the parameter.
    * (A4) `optimus.init` is an `#optimus.init`; a program that is compiled to a
      library has one for each parameter.
    * (A5) `optimus.role` is a text, `optimus.result_roles` one for each result;
      `--optimus-shard` refuses texts that are no roles.
    * (A6) `optimus.dims` is a name for each dimension, of 1 to 255 bytes of UTF-8
      without control characters.
    * (A7) `optimus.sharding` and `optimus.shardings` have the ranks of their values
      and, once the module has a mesh, its axes.
    * (A8) `optimus.donates` is the number of a result.
    * (A9) `optimus.binding`, what an argument or a result is, is an
      `#optimus.buffer`; on an argument written by a builder it may be
      `"tokens"`, `"targets"`, `"positions"` or `"random"`, which are short for one. A result
      is filled by the program.
    * (A10) `optimus.move`, on a product, is `"panels"` or `"whole"`.
    * (A11) `optimus.compilation`, in which `optimus-compile` keeps its flags in the
      IR of a phase, is a dictionary of strings.
    * (A14) `optimus.function`, what decides the function of the model, is a dictionary
      with an integer `version`, a string `hash`, and the dictionaries `facts` and
      `incidental`. `--optimus-record-function` writes it.
    * (A15) `optimus.entry`, on a function, is an `#optimus.entry`.
    * (A16) `optimus.packed` is an `#optimus.packed` with the name of a parameter, and
      with rows that hold equally many of this one's elements.
    * (A12) there are no other attributes whose names begin with `optimus.`.
    * (A13) `optimus.binding` does not stand beside `optimus.param`, short for
      the buffer of a parameter, nor beside `optimus.init`, which belongs to a
      parameter; nor on a result with a donated buffer, which is the argument's.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    static constexpr llvm::StringLiteral kModel = "optimus.model";
    static constexpr llvm::StringLiteral kCompilation = "optimus.compilation";
    static constexpr llvm::StringLiteral kFunction = "optimus.function";
    static constexpr llvm::StringLiteral kParam = "optimus.param";
    static constexpr llvm::StringLiteral kHfShape = "optimus.hf_shape";
    static constexpr llvm::StringLiteral kPacked = "optimus.packed";
    static constexpr llvm::StringLiteral kInit = "optimus.init";
    static constexpr llvm::StringLiteral kRole = "optimus.role";
    /// On an operation with several results: a role for each, empty where the
    /// result has none. It comes before `optimus.role`.
    static constexpr llvm::StringLiteral kResultRoles = "optimus.result_roles";
    /// How what moves in a product does: "panels", one after another, or
    /// "whole", gathered before the product or reduced after it.
    static constexpr llvm::StringLiteral kMove = "optimus.move";
    static constexpr llvm::StringLiteral kMovePanels = "panels";
    static constexpr llvm::StringLiteral kMoveWhole = "whole";
    /// On an operation of the backward that makes a value of the forward again.
    static constexpr llvm::StringLiteral kRecomputed = "optimus.recomputed";
    /// The prefix of a parameter's role in the role of its optimizer's state.
    static constexpr llvm::StringLiteral kStateRole = "state:";
    static constexpr llvm::StringLiteral kDims = "optimus.dims";
    static constexpr llvm::StringLiteral kSharding = "optimus.sharding";
    static constexpr llvm::StringLiteral kShardings = "optimus.shardings";
    static constexpr llvm::StringLiteral kDonates = "optimus.donates";
    /// On arguments and results: the buffer that the runtime passes there; to be
    /// read with getArgumentBuffer() and getResultBuffer() of Buffers.h.
    static constexpr llvm::StringLiteral kBinding = "optimus.binding";
    /// On functions: what they are called for; to be read with getEntry() of
    /// Entries.h.
    static constexpr llvm::StringLiteral kEntry = "optimus.entry";
  }];
}

/// Every extent is known and positive, and the elements can be counted.
def Optimus_HasTensorShape : CPred<"::mlir::optimus::isTensorShape("
    "::llvm::cast<::mlir::ShapedType>($_self).getShape())">;

class Optimus_TensorOf<list<Type> allowedTypes>
    : RankedTensorOf<allowedTypes, [Optimus_HasTensorShape],
                     "static tensor of at most 16 dimensions and 1 to 2^48 elements,">;

// Numbers that the runtime computes with as f32, i32 or i64, within the bounds of
// `optimus-support/Sizes.h`.

def Optimus_EpsilonAttr : ConfinedAttr<F64Attr, [AttrConstraint<
    CPred<"::mlir::optimus::isPositiveFloat(::llvm::cast<::mlir::FloatAttr>($_self).getValue())">,
    "which is positive as an f32, and finite">]>;
def Optimus_SizeAttr : ConfinedAttr<I64Attr, [IntPositive, IntMaxValue<281474976710656>]>;
def Optimus_TokenAttr : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2147483647>]>;

class Optimus_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Optimus_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

#endif // OPTIMUS_DIALECT_OPTIMUS_BASE
