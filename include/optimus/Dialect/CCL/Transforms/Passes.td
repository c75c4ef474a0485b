//===- Passes.td - Passes on what one rank does ------------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def TuneProductsPass : Pass<"optimus-tune-products", "::mlir::func::FuncOp"> {
  let summary = "Chooses how what moves in each distributed product does";
  let description = [{
    By predicted times (see docs/cost-model.md), a `ccl.matmul` keeps its number
    of panels, gets a multiple of it or a power of two, or becomes a local
    product. A multiple shortens the wait for the first and last panel. A power
    of two makes fewer, larger messages of panels that have a slice of every
    rank's part. A local product stands between an all-gather of each moving
    operand and a reduce-scatter of a moving result. Fewer messages take more
    memory: with the bytes alive at the product it may exceed the most alive at
    once by `max-share`, or be `max-whole-bytes`. Of the ways within 5 % of the
    fastest the one with the fewest bytes is taken. Products of a
    group (see `--optimus-group-products`) are treated alike, by the sum of
    their times. One that carries `optimus.move` is left alone.

    ```mlir
    %y = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64} : …
    // becomes
    %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : …
    %1 = ccl.all_gather %w {axis = "row", dim = 0 : i64} : …
    %y = optimus.matmul %0, %1 : …
    ```
  }];
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
  let options = [
    Option<"move", "move", "std::string", "\"auto\"",
           "auto, or panels or whole for all products">,
    Option<"maxFactor", "max-factor", "int64_t", "4",
           "The largest multiple of the given number of panels">,
    Option<"panels", "panels", "int64_t", "0",
           "The number of panels, instead of one chosen by predicted times, or "
           "the nearest smaller one that a product can have, at most 64; 0 to "
           "choose">,
    Option<"maxWholeBytes", "max-whole-bytes", "int64_t", "16777216",
           "Bytes that tensors may always have beside the parts of ranks">,
    Option<"maxShare", "max-share", "double", "0.35",
           "Share of the most bytes alive at once by which such tensors may "
           "exceed them">,
    Option<"machineProfile", "machine-profile", "std::string", "\"\"",
           "JSON file that optimus-run bench --gemm and --comm wrote "
           "(default: a built-in profile)">,
    Option<"profile", "profile", "std::string", "\"\"",
           "What optimus-run train --profile wrote on the same mesh">
  ];
  let statistics = [
    Statistic<"numProducts", "products", "Distributed products">,
    Statistic<"numWhole", "whole", "Products whose tensors move whole">,
    Statistic<"numOtherPanels", "other-panels",
              "Products with another number of panels">
  ];
}

def KeepSerialPass : Pass<"optimus-keep-serial", "::mlir::ModuleOp"> {
  let summary = "Keeps a copy of the program for --optimus-verify-partition";
  let description = [{
    The program is copied as it is, for a pass later in the same compilation, and
    not changed. `optimus-compile` and `--optimus-pipeline` copy it before the
    first phase that places tensors. By itself it keeps nothing: there,
    `--optimus-verify-partition` reads the serial program from a file.
  }];
}

def VerifyPartitionPass : Pass<"optimus-verify-partition", "::mlir::ModuleOp"> {
  let summary = "Proves a partitioned program equal to the serial one";
  let description = [{
    Collectives and distributed products verify their own types. This pass
    checks those of every `optimus` operation (`#ccl.local` C3 and C4) and holds
    it against its sharding rule:

    * (V1) a factor has one whole extent, and the same axes shard it, wherever it
      occurs;
    * (V2) a factor reduced in the middle of the operation, or never sharded, is
      whole;
    * (V3) a result is unreduced over exactly the sharding axes of the factors
      that do not reach it: no partial sum is read as a sum, nor a sum as a
      partial sum; a constant, which all ranks have, is a partial sum only if it
      is zero;
    * (V4) only linear operands take partial sums; the terms of a sum are all
      partial sums over the same axes, so that none is counted twice;
    * (V5) nothing unreduced leaves the function, unless an argument of the
      same type is donated to it: a sum that goes on;
    * (V6) a function is one block of operations on tensors, each with a
      sharding rule or with symbolic values on whole tensors.

    Then values are compared with those of the serial program, that of `serial`
    or the one kept by the compilation ([docs/proof.md](../../docs/proof.md)):

    * (V7) both have the same functions, with the same arguments and results;
    * (V8) each result is the same expression of whole tensors, by a list of
      lemmas.

    ```mlir
    // error: V5: the reduction over "row" is missing
    %db = optimus.sum_leading %dy : (tensor<4x8xf32, …{"row"}…>) -> tensor<8xf32, …unreduced = {"row"}…>
    return %db
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::ccl::CCLDialect",
                           "::mlir::func::FuncDialect"];
  let options = [
    Option<"serial", "serial", "std::string", "\"\"",
           "The serial program, as --optimus-build-step made it">
  ];
  let statistics = [
    Statistic<"numChecked", "operations-checked",
              "Local operations held against their rules">,
    Statistic<"numProven", "functions-proven",
              "Functions whose values are those of the serial program">
  ];
}

def GroupProductsPass : Pass<"optimus-group-products", "::mlir::func::FuncOp"> {
  let summary = "Brings products together that can move a tensor once for all";
  let description = [{
    Runs before `--optimus-tune-products`, and again, since other passes move and
    clone operations, just before `--optimus-to-exec`. Products that move one operand over
    one axis in equally many panels, as those of queries, keys and values or
    the gradients of their weights do, are put next to each other and marked with
    `ccl.group`, where nothing stands between them: no operation needs
    one of them and makes what another needs. So are products whose results
    move alike and are only added up, as their input's gradient is. `--optimus-to-exec` expands a group
    panel by panel together: a common operand's panel is broadcast once, and
    partial results are added up before they are reduced.

    ```mlir
    %q = ccl.matmul %x, %wq {ccl.group = 0 : i64, panels = 2 : i64, stationary = "c"} : …
    %k = ccl.matmul %x, %wk {ccl.group = 0 : i64, panels = 2 : i64, stationary = "c"} : …
    ```
  }];
  let statistics = [
    Statistic<"numGrouped", "products-grouped", "Products in groups">,
    Statistic<"numSums", "sums", "Sums of products that are reduced as one">
  ];
}

def AdvanceReductionsPass : Pass<"optimus-advance-reductions", "::mlir::func::FuncOp"> {
  let summary = "Reduces partial sums where they are made rather than where they are used";
  let description = [{
    A `ccl.reduce_scatter` with the last use of its source moves up to just
    behind the operations that make the source, or use it besides: from there on
    a rank holds its shard of the sum instead of the whole partial sum. So a
    gradient lies as the optimizer's state does from the moment it is made, as
    with ZeRO-2, where a mesh has an axis `data`. Runs after
    `--optimus-group-products`, whose groups stay together.

    ```mlir
    %dw = optimus.matmul %x, %dy … : … -> tensor<8x8xf32, …unreduced = {"data"}…>
    …
    %mine = ccl.reduce_scatter %dw {axis = "data", dim = 0 : i64} : …
    // becomes
    %dw = optimus.matmul %x, %dy … : … -> tensor<8x8xf32, …unreduced = {"data"}…>
    %mine = ccl.reduce_scatter %dw {axis = "data", dim = 0 : i64} : …
    …
    ```

    The order of additions is that of ranks, as before: no bit changes.
  }];
  let statistics = [
    Statistic<"numAdvanced", "reductions-advanced",
              "Reduce-scatters moved to where their source is made">
  ];
}

def RecomputePass : Pass<"optimus-recompute", "::mlir::func::FuncOp"> {
  let summary = "Recomputes activations in the backward rather than keep them";
  let description = [{
    Clones operations of the forward pass, with `optimus.recomputed`, to the
    first use of their results in the backward, so that these need not be kept.
    All that is kept is sharded as it was: activations stay blocks of the mesh.

    A *cut* is an activation from which alone, with the parameters, the rest of
    the forward follows: the residual stream between the blocks of a
    transformer. Of several such values without a product between them the
    smallest is the cut, of equal ones the first. A *layer* has as many cuts as
    stand between operations and the same operations again. Policies:

    * `none`: everything that the backward uses is kept;
    * `layer`: the cut after every first, second, third … layer is kept, as
      makes the estimated peak least, or those within layers too where that is
      less by a quarter; all else is recomputed, products and collectives
      included. Statistics of rows, as operations with
      `RowReductionOpInterface` name them, are kept where something would run
      again for them alone, as long as all of them stay below an eighth of the
      kept cuts;
    * `attention`: attention, norms and elementwise operations run again,
      products and collectives do not; the results of products and collectives
      are kept, or the first values derived from them if only those are used.

    `values` names what is recomputed besides, by the ids of values: that of
    `optimus.gelu` at `h.3.mlp.gelu` is `h.3.mlp.gelu:0`. What such a value is made from
    is kept, unless it is named too. A gathered parameter is gathered again for
    it, unless the backward needs that, too.

    The boundary between forward and backward is what makes the result bound to
    `loss_sum`; a function without one is left alone. Must run after `cse`,
    which would merge the clones with their originals, and after `optimus-fuse`,
    for a clone to be the same kernel with the same bits. To that end a product
    gets `ccl.own_buffer` if an operand has no later use any more. A product
    that adds to an operand in place does not run again, since the backward
    never uses the operand.
  }];
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
  let options = [
    Option<"policy", "policy", "std::string", "\"none\"",
           "none, layer or attention">,
    ListOption<"values", "values", "std::string",
               "What is recomputed besides: ids of values of the forward, in "
               "which * stands for any part">
  ];
  let statistics = [
    Statistic<"numCloned", "operations-repeated",
              "Operations of the forward that run again in the backward">
  ];
}

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES
