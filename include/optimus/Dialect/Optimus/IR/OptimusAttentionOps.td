//===- OptimusAttentionOps.td - Attention and positions ----*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_ATTENTIONOPS
#define OPTIMUS_DIALECT_OPTIMUS_ATTENTIONOPS

include "optimus/Dialect/Optimus/IR/OptimusOpBase.td"

def Optimus_AttentionOp : Optimus_DifferentiableOp<"attention", [
    Optimus_Precisions<["Narrow", "Any", "Any", "Any"], ["Narrow", "Full"]>,
    Optimus_RowStatistics<[1]>,
    Optimus_Facts<["getPlaces"]>, AttrSizedOperandSegments]> {
  let summary = "Multi-head and grouped-query attention";
  let description = [{
    softmax(q·kᵀ/√d)·v for each head of each sequence; a position sees itself
    and earlier ones if `causal`, and of those the first `lengths` of its
    sequence, where there are lengths: what follows is padding. They are from 1
    to s. With `positions`, each token's place in its document, a token sees its
    own document alone: keys from `positions` tokens earlier on, as `seenKeys` of
    SeenKeys.h says. With a `window`, a token sees so many keys at most, itself and the
    window - 1 before it. The operands are q, k and v,

    * in one tensor [b, s, 3, n, d], or
    * q [b, s, n, d] or [b, s, g, r, d], and k and v [b, s, g, d]: each of the g
      heads of keys and values serves r heads of queries, which are n = g·r in
      all. The groups are a dimension, so that sharding it shards q, k and v alike and
      no code ever orders heads anew.

    `cached` ones have keys and values of their own number, the capacity of a cache:
    [b, c, g, d], where key j is that of position j. Of each sequence `lengths`, from 0
    to c, says how many of them are filled, and `positions`, below c, where each query
    is: it sees the filled keys up to its own. A query at a negative position sees
    none, as in an empty slot. Results of queries without keys are 0. There is no
    gradient. Where q is [b, 1, …] and the cache that of one sequence, [1, c, g, d], the
    queries are b tokens of this sequence: lengths is [1], and lse [1, g, (r,) b].

    With `pages` [b, p], sequences of one query each have keys and values in pages of 64
    positions: those of position j are row j mod 64 of page `pages[i, j / 64]`, counted from
    the first page of the sequence's own, k[i]. So the capacity of a sequence is 64·p, and
    c is what the pool has for each on average.

    The result has the shape of q, or [b, s, n, d]; `lse`, the logarithm of
    each row's sum of exponentials, has its dimensions of heads between b and s, for
    the gradient's sake. Each head of each sequence is computed on its own, so
    batch, groups and heads within a group may be sharded.

    ```mlir
    %o, %lse = optimus.attention %qkv {causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
    %p, %m = optimus.attention %q, %k, %v {causal}
      : (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x2x3x8xf32>)
    %c, %l = optimus.attention %x, %keys, %values lengths(%lengths) positions(%positions) {cached, causal}
      : (tensor<2x1x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x4x16xf32>, tensor<2x4x1xf32>)
    %e, %n = optimus.attention %x, %keys, %values lengths(%lengths) positions(%positions) pages(%pages) {cached, causal}
      : (tensor<2x1x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2xi32>, tensor<2x1xi32>, tensor<2x2xi32>) -> (tensor<2x1x4x16xf32>, tensor<2x4x1xf32>)
    ```

    Constraints: (C1) the operands are one tensor of rank 5 with 3 in its third
    dimension, or q, k and v of the shapes above; (C2) the result has the shape
    above; (C3) lse has; (C4) lengths is [b]; (C5) operands and result have one
    element type; (C6) positions is [b, s], and attention with it causal; (C7) window is
    positive, and attention with it causal; (C8) cached attention has k and v, lengths
    and positions, and is causal; (C9) pages is [b, p], attention with it cached, with one
    query a sequence, and c whole pages. Scores, probabilities and lse are f32.
  }];
  let arguments = (ins Variadic<Optimus_FloatTensor>:$inputs,
                       Optional<Optimus_IndexTensor>:$lengths,
                       Optional<Optimus_IndexTensor>:$positions,
                       Optional<Optimus_IndexTensor>:$pages, UnitAttr:$causal,
                       OptionalAttr<I64Attr>:$window, UnitAttr:$cached);
  let results = (outs Optimus_FloatTensor:$result, Optimus_F32Tensor:$lse);
  let assemblyFormat = [{
    $inputs (`lengths` `(` $lengths^ `)`)? (`positions` `(` $positions^ `)`)?
    (`pages` `(` $pages^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_AttentionGradOp : Optimus_TensorOp<"attention_grad", [
    Optimus_Precisions<["Narrow", "Narrow", "Full", "Narrow", "Any", "Any"], ["Narrow"]>,
    AttrSizedOperandSegments, Optimus_ResultTypes<["adaptor.getInputs()"]>]> {
  let summary = "The gradient of attention";
  let description = [{
    The gradients of the operands of `optimus.attention`, which follow its
    result's gradient, its result and lse. Recomputes the probabilities from lse,
    a block at a time; gradients of keys and values are sums over the heads of
    queries they serve.

    ```mlir
    %dqkv = optimus.attention_grad %do, %o, %lse, %qkv {causal}
      : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
    ```

    Constraints: (C1) the last operands are those of `optimus.attention`, and the
    results have their shapes; (C2) dout and out have the shape of its result;
    (C3) lse has that of its lse; (C4) lengths is [b]; (C5) dout, out, the operands of
    `optimus.attention` and the results have one element type; (C6) positions is
    [b, s], and attention with it causal; (C7) window is positive, and attention with it
    causal.
  }];
  let arguments = (ins Optimus_FloatTensor:$dout, Optimus_FloatTensor:$out, Optimus_F32Tensor:$lse,
                       Variadic<Optimus_FloatTensor>:$inputs,
                       Optional<Optimus_IndexTensor>:$lengths,
                       Optional<Optimus_IndexTensor>:$positions, UnitAttr:$causal,
                       OptionalAttr<I64Attr>:$window);
  let results = (outs Variadic<Optimus_FloatTensor>:$dinputs);
  let assemblyFormat = [{
    $dout `,` $out `,` $lse `,` $inputs (`lengths` `(` $lengths^ `)`)?
    (`positions` `(` $positions^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_CacheAppendOp : Optimus_TensorOp<"cache_append", [
    Optimus_Precisions<["Same", "Same", "Any", "Any", "Any"], ["Same"]>,
    AttrSizedOperandSegments, Optimus_ResultTypes<["adaptor.getCache()"]>]> {
  let summary = "Writes rows into a cache at positions";
  let description = [{
    `result[i, positions[i, j], …] = rows[i, j, …]`; all else is the cache's. Rows at
    negative positions are dropped, as those of empty slots; positions of a sequence
    differ. With a `slot` all rows are tokens of one sequence:
    `result[slot[0], positions[i, j], …] = rows[i, j, …]`, and of a negative slot none is
    written. With `pages` [b, p] sequences have pages of 64 positions in place of the entry
    of their number, as in `optimus.attention`; two sequences may have one page, in which
    neither then has a position. Where a function returns the result, and the cache's argument donates to
    it, the rows alone are written, in the argument's buffer.

    ```mlir
    %c = optimus.cache_append %cache, %rows, %positions
      : (tensor<2x64x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>) -> tensor<2x64x4x16xf32>
    %d = optimus.cache_append %cache, %chunk, %places slot(%slot)
      : (tensor<2x64x4x16xf32>, tensor<8x1x4x16xf32>, tensor<8x1xi32>, tensor<1xi32>) -> tensor<2x64x4x16xf32>
    ```

    Slots may be sharded, and what follows positions. Constraints: (C1) the cache is
    [b, c, …] of rank 3 at least; (C2) rows is [b, s, …] with the dimensions of the
    cache behind positions, or with a slot [n, s, …]; (C3) positions is [b, s], or with a
    slot of at most n rows, the first, and what is behind them is dropped;
    (C4) the cache and rows have one element type; (C5) the result has the type of the
    cache; (C6) slot is [1]; (C7) pages is [b, p], and c whole pages.
  }];
  let arguments = (ins Optimus_FloatTensor:$cache, Optimus_FloatTensor:$rows,
                       Optimus_IndexTensor:$positions,
                       Optional<Optimus_IndexTensor>:$slot,
                       Optional<Optimus_IndexTensor>:$pages);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = [{
    $cache `,` $rows `,` $positions (`slot` `(` $slot^ `)`)?
    (`pages` `(` $pages^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_TakeOp : Optimus_TensorOp<"take", [
    Optimus_Precisions<["Same", "Any", "Any", "Any"], ["Same"]>,
    AttrSizedOperandSegments, Optimus_Rounding]> {
  let summary = "One entry of the first dimension, chosen by data";
  let description = [{
    `result[0, …] = x[index[0], …]`: the keys of one slot of a cache, or the last token of
    a chunk. Where x holds some entries only, another index gives zeros, so that the parts
    add up; so does a negative one. With a `length`, the second dimension has only so many
    real entries: the others of the result are 0, and are not read. With `pages` [b, p] too,
    x is a cache [b, c, …] of pages, as in `optimus.attention`, and the result has the
    sequence's positions in their order, [1, 64·p, …]. There is no gradient.

    ```mlir
    %k = optimus.take %cache, %slot length(%lengths)
      : (tensor<2x64x4x16xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x64x4x16xf32>
    ```

    All dimensions may be sharded, but the second not with a length. Constraints: (C1) x has
    rank 2 at least, and with a length 3; (C2) the result has the shape of x with 1 for its
    first dimension, and with pages 64·p for its second; (C3) index is [1]; (C4) length is [1]; (C5) the result has the element
    type of x; (C6) pages is [b, p], with a length, and c whole pages.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optimus_IndexTensor:$index,
                       Optional<Optimus_IndexTensor>:$length,
                       Optional<Optimus_IndexTensor>:$pages);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = [{
    $x `,` $index (`length` `(` $length^ `)`)? (`pages` `(` $pages^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Optimus_PartOp : Optimus_TensorOp<"part", [Optimus_Precisions<["Same"], ["Same"]>, Optimus_Rounding]> {
  let summary = "Queries, keys or values of a packed tensor";
  let description = [{
    `result[i, j, …] = packed[i, j, index, …]`: of qkv [b, s, 3, n, d] the queries
    (0), the keys (1) or the values (2), for a cache that keeps the last two. There is
    no gradient.

    ```mlir
    %k = optimus.part %qkv {index = 1 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32>
    ```

    All dimensions may be sharded but that of the parts. Constraints: (C1) packed has
    rank 4 at least, and the result all its dimensions but the third; (C2) index is below
    the third dimension; (C3) the result has the element type of packed.
  }];
  let arguments = (ins Optimus_FloatTensor:$packed, I64Attr:$index);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$packed attr-dict `:` functional-type(operands, results)";
}

def Optimus_RotaryOp : Optimus_DifferentiableOp<"rotary", [
    Optimus_Precisions<["Same", "Any"], ["Same"]>,
    Optimus_Facts<["getPlaces"]>, Optimus_ResultTypes<["adaptor.getX()"]>]> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates the pairs (x_i, x_{i+d/2}) of the last dimension, of d elements, by
    the angle p·theta^(−2i/d), where p is the position: `positions` of the token,
    or else its index in the second dimension. With the cosine c and the sine s,
    `result_i = c·x_i − s·x_{i+d/2}` and `result_{i+d/2} = c·x_{i+d/2} + s·x_i`.
    The pairs are those of Hugging Face's Llama. `inverse` rotates by
    the negative angle, which is the gradient. Without `positions` they are counted from
    the start of the sequence, which is never sharded, and nor is the last dimension;
    batch and heads may be.

    With a `capacity`, positions are below that number, as those of a cache; without
    they are below s.

    With `channels`, d is that number: only so many of the first channels of each
    head are rotated, and the others stay. With `parts`, only so many of the first
    entries of the third dimension are: of a packed [b, s, 3, n, d] with `parts = 2`
    queries and keys. That dimension is then not sharded either.

    With `frequencies`, the angle of pair i is p·frequencies_i, as of models whose
    positions were stretched after training; theta then says where these came from.

    ```mlir
    %y = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<2x8x4x16xf32>
    %z = optimus.rotary %qkv {theta = 1.0e4 : f64, channels = 4 : i64, parts = 2 : i64} : tensor<2x8x3x4x16xf32>
    ```

    Constraints: (C1) x has a batch, positions and channels, an even number without `channels`; (C2)
    theta is positive and finite; (C3) channels is even, positive and at most the last
    dimension; (C4) parts is positive and at most the third dimension, which is not
    the last; (C5) positions is [b, s]; (C6) the result has the type of x; (C7) capacity
    is positive, and there are positions with it; (C8) frequencies are positive, finite
    and as many as pairs.
  }];
  let arguments = (ins Optimus_FloatTensor:$x, Optional<Optimus_IndexTensor>:$positions,
                       F64Attr:$theta, UnitAttr:$inverse,
                       OptionalAttr<I64Attr>:$channels, OptionalAttr<I64Attr>:$parts,
                       OptionalAttr<I64Attr>:$capacity,
                       OptionalAttr<DenseF64ArrayAttr>:$frequencies);
  let results = (outs Optimus_FloatTensor:$result);
  let assemblyFormat = "$x (`positions` `(` $positions^ `:` type($positions) `)`)? attr-dict `:` type($x)";
  let extraClassDeclaration = [{
    /// How many channels of a head are rotated.
    int64_t getNumRotated() {
      return getChannels().value_or(getX().getType().getShape().back());
    }
    /// How many of a token's heads are rotated: the first ones.
    int64_t getNumRotatedHeads();
  }];
}

#endif // OPTIMUS_DIALECT_OPTIMUS_ATTENTIONOPS
