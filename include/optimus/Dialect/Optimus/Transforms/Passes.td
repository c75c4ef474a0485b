//===- Passes.td - Passes on the optimus dialect -----------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_PASSES
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"optimus-differentiate", "::mlir::ModuleOp"> {
  let summary = "Adds @grad, the gradient of @loss for every parameter";
  let description = [{
    For `@loss(params…, tokens, targets[, positions][, random]) -> (loss_sum, real_count)` adds
    `@grad`, with the same arguments and the results
    `(loss_sum, real_count, one gradient for each parameter in order)`. The
    gradients are those of `loss_sum`: a sum over tokens, not divided by their
    number.

    The values of `@loss` get the roles that follow from the program, where they
    have none (`docs/strategies.md`). Then its
    body is cloned and walked backwards; each operation builds
    the gradient of its operands through `DifferentiableOpInterface`. The
    operation of a gradient gets the role of the differentiated value, so that
    both are sharded alike. Operations with several results carry
    `optimus.result_roles`, a name for each result, empty where the result has
    no role.

    With `train`, parameters that match none of its patterns are frozen: they have
    no gradient, and nothing is computed for one. The `optimus.binding` of
    each gradient then names its parameter, and later passes go by these names.

    Fails where `@loss` has not this form, where an operation between a
    trained parameter and the loss is not differentiable, where the loss does not
    depend on a trained parameter, and for a pattern that matches none.

    ```mlir
    %0 = optimus.embedding %w, %tokens : (tensor<4x3xf32>, tensor<1x2xi32>) -> tensor<1x2x3xf32>
    %x = optimus.add %0, %b : (tensor<1x2x3xf32>, tensor<3xf32>) -> tensor<1x2x3xf32>
    %sum, %count = optimus.head_loss %x, %w, %targets : …
    return %sum, %count : tensor<f32>, tensor<f32>
    // becomes in @grad, besides what makes %x
    %sum, %count, %dh, %dtable = optimus.head_loss_grad %x, %w, %targets : …
    %db = optimus.sum_leading %dh : (tensor<1x2x3xf32>) -> tensor<3xf32>
    %dw = optimus.embedding_grad %dh, %tokens accumulate(%dtable) : …
    return %sum, %count, %dw, %db : tensor<f32>, tensor<f32>, tensor<4x3xf32>, tensor<3xf32>
    ```
  }];
  let options = [
    Option<"train", "train", "std::string", "\"\"",
           "Names of the parameters to train, with * for any part, separated by "
           "semicolons; empty: all">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numFrozen", "parameters-frozen",
              "Parameters without a gradient">,
    Statistic<"numVisited", "operations-differentiated",
              "Operations whose gradient was built">,
    Statistic<"numErased", "operations-erased",
              "Operations that nothing uses once gradients exist">
  ];
}

def AddAdaptersPass : Pass<"optimus-add-adapters", "::mlir::ModuleOp"> {
  let summary = "Adds low-rank adapters beside linears";
  let description = [{
    Beside each linear x·W whose module is a target stands x·Aᵀ·Bᵀ · alpha/rank, in
    all functions with its weight. A and B are parameters behind W: A is
    [rank, in] and drawn between −1/√in and 1/√in, B is [out, rank] and zero, so that
    nothing changes at first. Their names in a checkpoint are PEFT's.

    A target is the end of a module's path, as PEFT matches it. Refused are targets that
    are no linear, as embeddings, and tensors with several parameters.

    ```mlir
    %q = optimus.matmul %x, %wq {transpose_b} : (tensor<2x8x32xf32>, tensor<4x8x32xf32>) -> tensor<2x8x4x8xf32>
    // with lora="rank=2,alpha=4,targets=q_proj"
    %h = optimus.matmul %x, %a {transpose_b} : (tensor<2x8x32xf32>, tensor<2x32xf32>) -> tensor<2x8x2xf32>
    %s = optimus.mul %h, %scale : (tensor<2x8x2xf32>, tensor<2xf32>) -> tensor<2x8x2xf32>
    %z = optimus.matmul %s, %b {transpose_b} : (tensor<2x8x2xf32>, tensor<4x8x2xf32>) -> tensor<2x8x4x8xf32>
    %sum = optimus.add %q, %z : (tensor<2x8x4x8xf32>, tensor<2x8x4x8xf32>) -> tensor<2x8x4x8xf32>
    ```
  }];
  let options = [
    Option<"lora", "lora", "std::string", "\"\"",
           "rank=N,alpha=X,targets=MODULE,…; empty: no adapters">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numAdapters", "adapters-added", "Linears with an adapter">
  ];
}

def ReplicateHeadsPass : Pass<"optimus-replicate-heads", "::mlir::ModuleOp"> {
  let summary = "Repeats heads of keys for groups of ranks where a mesh has more columns";
  let description = [{
    Where the strategy shards heads over more ranks than the heads of keys divide,
    padding these would pad the heads of queries with them, and double the attention
    and its products. This pass rewrites `@loss` and entries: r = C / gcd(C, n) copies of each of
    the n heads of keys and values, each for a group of ranks, with the queries
    divided among them. So n·r heads lie on C columns without padding.

    * Weights of queries and of the output are [n·r, g/r, d, h] instead of
      [n, g, d, h]: byte for byte the same, and so are files.
    * Weights of keys and values stay, and are multiplied by a matrix of zeros and
      ones that repeats their heads. Their channels are sharded (`docs/strategies.md`);
      each rank gathers them and takes the heads that it needs. The gradient of this
      product is the sum over a group, reduce-scattered.

    Nothing changes where r does not divide the queries of a head, g, where padding makes
    no more products, or the program has the heads in another way, as in a cache of keys,
    whose slots hold each head once. Then they are padded, as --optimus-partition says.

    ```mlir
    %k = optimus.matmul %x, %wk {transpose_b} : (tensor<4x16x64xf32>, tensor<2x8x64xf32>) -> tensor<4x16x2x8xf32>
    // with mesh=row:1,col:4 and four heads of queries for each of keys
    %e = arith.constant dense<[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]> : tensor<4x2xf32>
    %w = optimus.matmul %e, %wk : (tensor<4x2xf32>, tensor<2x8x64xf32>) -> tensor<4x8x64xf32>
    %k = optimus.matmul %x, %w {transpose_b} : (tensor<4x16x64xf32>, tensor<4x8x64xf32>) -> tensor<4x16x4x8xf32>
    ```
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"", "The mesh, as row:2,col:2">,
    Option<"strategy", "strategy", "std::string", "\"summa\"",
           "serial, summa, summa-paper, megatron, megatron-sp or data">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numReplicated", "heads-replicated",
              "Attentions whose heads of keys are repeated">
  ];
}

def MixedPrecisionPass : Pass<"optimus-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Narrows the element types of activations and of factors of products";
  let description = [{
    Changes the bodies of `@loss`, `@grad` and of functions with an `optimus.entry`.
    Arguments and results stay f32, but for caches and frozen parameters:
    every operation reads and makes what its `PrecisionOpInterface` says, and casts
    (`optimus.cast`) stand where a value is read otherwise than it is made. So factors of
    products, activations with the residual stream, and their gradients are of the narrow type;
    parameters, their gradients, statistics of normalisations, the logarithms of sums of
    exponentials and losses are f32. A value with a reader in f32 is made in f32
    where its operation can, as the gradient of a weight, and else widened. With `gradients`
    the products that make weights' gradients are of the narrow type, and so are their partial
    sums on ranks; they are widened for the optimizer.

    Operations without the interface compute in f32.

    Caches of keys and values, of the lifetime `sequence`, are of the narrow type in
    arguments and results too: attention reads them as they lie. So are parameters without
    a gradient in `@grad` of which every function reads the narrow value alone: nothing else
    of what is frozen is kept.

    ```mlir
    %y = optimus.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32>
    // with type=bf16
    %v = optimus.cast %w : (tensor<16x16xf32>) -> tensor<16x16xbf16>
    %y = optimus.matmul %x, %v : (tensor<2x8x16xbf16>, tensor<16x16xbf16>) -> tensor<2x8x16xbf16>
    ```
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"",
           "The narrow type: bf16 or f16; f32 changes nothing">,
    Option<"gradients", "gradients", "bool", "false",
           "Make gradients of weights in the narrow type, and widen them">
  ];
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numNarrowed", "values-narrowed",
              "Results of operations that are of the narrow type">,
    Statistic<"numCasts", "casts-added", "Casts between f32 and the narrow type">
  ];
}

def BuildStepPass : Pass<"optimus-build-step", "::mlir::ModuleOp"> {
  let summary = "Turns @loss and @grad into the functions a model library exports";
  let description = [{
    Leaves these functions in the module:

    * `@train_step(params…, states…, tokens, targets[, positions][, random], scalars…) ->
      (params…, states…, loss_sum, real_count, grad_norm)`: the body of
      `@grad`, the norm of all gradients, the clipping factor and one update
      for each parameter. Parameters and states carry `optimus.donates`, the
      number of the result that takes over the buffer. `grad_norm` is that of
      the mean loss, before clipping. Parameters without a gradient in `@grad` are
      read alone: they have neither update nor states. A parameter whose Hugging Face shape has
      fewer than two dimensions does not decay, and LAMB moves it by the
      learning rate alone.
    * `@eval_step`: `@loss` without `random`, every random draw replaced by its
      mean.
    * `@grad_step`: `@grad`.

    Each says by `optimus.entry` what it is called for. Functions with an entry that
    the module has already, as `@forward`, follow them; in those of the kinds `eval`
    and `forward` every random draw is replaced by its mean, too. Where all functions
    have one, and there is no `@loss`, none is missed.

    With `accumulate`, for microbatches:

    * `@accumulate(params…, tokens, targets[, positions][, random], loss_sum, real_count,
      grads…) -> (loss_sum, real_count, grads…)`: what `@grad` computes, added
      to the sums so far, in place.
    * `@update(params…, states…, grads…, real_count, scalars…) -> (params…,
      states…, grad_norm)`: the rest of `@train_step`. So norm and division by
      the number of real tokens are those of all microbatches together.

    | optimizer | states | scalars |
    |---|---|---|
    | adamw, lamb | exp_avg, exp_avg_sq | lr, weight_decay, clip, beta1, beta2, epsilon, beta1_power, beta2_power |
    | sgd | momentum_buffer | lr, weight_decay, clip, momentum |
    | adagrad | sum | lr, weight_decay, clip, epsilon |
    | lion | exp_avg | lr, weight_decay, clip, beta1, beta2 |

    Arguments and results carry `optimus.binding`, an `#optimus.buffer`: what the
    runtime passes there. Sums of gradients are buffers of their own; with
    `accumulate`, loss and number of real tokens are sums over microbatches in
    all functions.

    ```mlir
    func.func @grad(%w, %b, %tokens, %targets) -> (%sum, %count, %dw, %db)
    // becomes with optimizer=sgd, after the body of @grad
    %gw = optimus.reshard %dw {optimus.role = "state:table vocabulary,hidden of w"} : tensor<4x3xf32>
    %gb = optimus.reshard %db {optimus.role = "state:vector hidden of b"} : tensor<3xf32>
    %norm = optimus.global_norm %gw, %gb : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<f32>
    %scale, %mean_norm = optimus.clip %norm, %count, %clip : …
    %new_w, %momentum_w = optimus.sgd %w, %gw, %buffer_w, %scale, %lr, %weight_decay, %momentum {decay} : …
    %new_b, %momentum_b = optimus.sgd %b, %gb, %buffer_b, %scale, %lr, %weight_decay, %momentum : …
    return %new_w, %new_b, %momentum_w, %momentum_b, %sum, %count, %mean_norm
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"",
           "The optimizer: adamw, lamb, sgd, adagrad or lion">,
    Option<"accumulate", "accumulate", "bool", "false",
           "Make @accumulate and @update too">,
    Option<"keepSources", "keep-sources", "bool", "false",
           "Keep @loss and @grad beside the functions made of them">
  ];
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numUpdates", "parameters-updated",
              "Parameters that the step updates">,
    Statistic<"numDecayed", "parameters-decayed",
              "Parameters that decay">
  ];
}

def ShardPass : Pass<"optimus-shard", "::mlir::ModuleOp"> {
  let summary = "Gives every value a sharding, from a strategy's rules";
  let description = [{
    Adds the mesh to the module where it has none, and annotates every argument
    and result of a function (`optimus.sharding`) and every result of an
    operation (`optimus.shardings`). In this order, a value's sharding is

    1. the annotation that it carries already;
    2. what the option `layouts` says of its path;
    3. what the strategy's rules say of its role: the classes of its dimensions,
       and the linear that it is the weight of. In a function with parameters,
       values without roles get roles inferred from the program;
    4. its neighbours, along factors of rules except contracted ones, from
       operands to results and back, up to a fixed point;
    5. whole on every rank.

    If two neighbours of a value have conflicting shardings, the error names
    both paths.

    Results that belong to a parameter (its update, moments and gradient) are
    sharded as it is. An axis of one rank shards nothing.

    Dimensions that no axis divides are padded later, a class at a time; with
    `no-pad` the first one is an error that names operation, dimension, size and
    axis.

    Strategies: `serial` shards nothing; `summa` is 2D and keeps the largest
    tensor of each product in place; `summa-paper` lays every weight out as the
    Optimus paper does; `megatron` is 1D tensor parallelism over `col` and data
    parallelism over `row`; `megatron-sp` is the same with the sequence sharded
    over `col` between products, and marks products with
    `optimus.move = "whole"`: tensors that move are all-gathered before them or reduced after,
    not streamed in panels; `data` shards the batch over `data`.

    Each of them but `serial` takes an axis `data` besides its own: it shards the
    batch, parameters are replicated over it, and the optimizer's state is sharded
    by it (roles `state:…`) along the first dimension that it divides.

    ```mlir
    %y = optimus.gelu %x {optimus.role = "batch,sequence,ffn"} : tensor<4x8x16xf32>
    // with mesh=row:2,col:2 strategy=summa
    %y = optimus.gelu %x {optimus.role = "batch,sequence,ffn",
      optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"} ]>]} : tensor<4x8x16xf32>
    ```
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"",
           "The mesh, as row:2,col:2; empty for that of the module">,
    Option<"strategy", "strategy", "std::string", "\"summa\"",
           "serial, summa, summa-paper, megatron, megatron-sp or data">,
    Option<"entryStrategies", "entry-strategies", "std::string", "\"\"",
           "ENTRY=NAME for activations of single entries of generation, in place of the "
           "strategy, as decode=stationary">,
    Option<"layouts", "layouts", "std::string", "\"\"",
           "PATTERN=LAYOUT in place of the strategy's, separated by semicolons, as "
           "h.*.mlp.c_proj.weight=row,col">,
    Option<"noPad", "no-pad", "bool", "false",
           "Refuse dimensions that the mesh does not divide">
  ];
  let dependentDialects = ["::mlir::optimus::OptimusDialect"];
  let statistics = [
    Statistic<"numUserShardings", "shardings-given",
              "Values whose sharding was annotated already">,
    Statistic<"numFromRules", "shardings-from-rules",
              "Values whose sharding the strategy's rules or a layout gave">,
    Statistic<"numPropagated", "shardings-propagated",
              "Values whose sharding followed from their neighbours">
  ];
}

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_PASSES
