// RUN: optimus-opt %s --split-input-file --verify-diagnostics

func.func @cache_append_c1(%c: tensor<2x8xf32>, %x: tensor<2x3xf32>, %p: tensor<2x3xi32>) {
  // expected-error @below {{C1: expected a cache of rank 3 at least, found [2, 8]}}
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8xf32>, tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @cache_append_c2(%c: tensor<2x8x4x16xf32>, %x: tensor<2x3x2x16xf32>, %p: tensor<2x3xi32>) {
  // expected-error @below {{C2: expected rows of the shape of the cache but for their number, [2, 8, 4, 16], found [2, 3, 2, 16]}}
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8x4x16xf32>, tensor<2x3x2x16xf32>, tensor<2x3xi32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @cache_append_c3(%c: tensor<2x8x4x16xf32>, %x: tensor<2x3x4x16xf32>, %p: tensor<2x8xi32>) {
  // expected-error @below {{C3: expected positions of shape [2, 3], found [2, 8]}}
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>, tensor<2x8xi32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @cache_append_c4(%c: tensor<2x8x4x16xf32>, %x: tensor<2x3x4x16xbf16>, %p: tensor<2x3xi32>) {
  // expected-error @below {{C4: expected rows of 'f32' elements, found 'bf16'}}
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8x4x16xf32>, tensor<2x3x4x16xbf16>, tensor<2x3xi32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @cache_append_c5(%c: tensor<2x8x4x16xf32>, %x: tensor<2x3x4x16xf32>, %p: tensor<2x3xi32>) {
  // expected-error @below {{C5: expected the result to have the type of the cache}}
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>, tensor<2x3xi32>) -> tensor<2x3x4x16xf32>
  return
}

// -----

func.func @cache_append_c2_slot(%c: tensor<2x8x4x16xf32>, %x: tensor<5x1x3x16xf32>, %p: tensor<5x1xi32>, %s: tensor<1xi32>) {
  // expected-error @below {{C2: expected rows of the shape of the cache but for their number, [2, 8, 4, 16], found [5, 1, 3, 16]}}
  %0 = optimus.cache_append %c, %x, %p slot(%s) : (tensor<2x8x4x16xf32>, tensor<5x1x3x16xf32>, tensor<5x1xi32>, tensor<1xi32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @cache_append_c6(%c: tensor<2x8x4x16xf32>, %x: tensor<5x1x4x16xf32>, %p: tensor<5x1xi32>, %s: tensor<2xi32>) {
  // expected-error @below {{C6: expected slot of shape [1], found [2]}}
  %0 = optimus.cache_append %c, %x, %p slot(%s) : (tensor<2x8x4x16xf32>, tensor<5x1x4x16xf32>, tensor<5x1xi32>, tensor<2xi32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @take_c1(%x: tensor<2x8xf32>, %i: tensor<1xi32>) {
  // expected-error @below {{C1: expected x of rank 3 at least, found [2, 8]}}
  %0 = optimus.take %x, %i length(%i) : (tensor<2x8xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @take_c2(%x: tensor<2x8xf32>, %i: tensor<1xi32>) {
  // expected-error @below {{C2: expected a result of shape [1, 8], found [8]}}
  %0 = optimus.take %x, %i : (tensor<2x8xf32>, tensor<1xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @take_c3(%x: tensor<2x8xf32>, %i: tensor<2xi32>) {
  // expected-error @below {{C3: expected index of shape [1], found [2]}}
  %0 = optimus.take %x, %i : (tensor<2x8xf32>, tensor<2xi32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @take_c4(%x: tensor<2x8x3xf32>, %i: tensor<1xi32>, %l: tensor<2xi32>) {
  // expected-error @below {{C4: expected length of shape [1], found [2]}}
  %0 = optimus.take %x, %i length(%l) : (tensor<2x8x3xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<1x8x3xf32>
  return
}

// -----

func.func @take_c5(%x: tensor<2x8xf32>, %i: tensor<1xi32>) {
  // expected-error @below {{C5: expected a result of 'f32' elements, found 'bf16'}}
  %0 = optimus.take %x, %i : (tensor<2x8xf32>, tensor<1xi32>) -> tensor<1x8xbf16>
  return
}

// -----

func.func @best_c1(%x: tensor<2x1x8xf32>) {
  // expected-error @below {{C1: expected a result of shape [2, 1, 6], found [2, 1, 3]}}
  %0 = optimus.best %x {count = 3 : i64} : (tensor<2x1x8xf32>) -> tensor<2x1x3xf32>
  return
}

// -----

func.func @best_c2(%x: tensor<2x1x8xf32>) {
  // expected-error @below {{C2: expected logits of at most 16777216 tokens, and at least the 9 best, found [2, 1, 8]}}
  %0 = optimus.best %x {count = 9 : i64} : (tensor<2x1x8xf32>) -> tensor<2x1x18xf32>
  return
}

// -----

func.func @log_probabilities_c1(%x: tensor<2x1x8xf32>, %t: tensor<3x1xi32>) {
  // expected-error @below {{C1: expected logits with the dimensions of targets, [3, 1], and one more, found [2, 1, 8]}}
  %0 = optimus.log_probabilities %x, %t : (tensor<2x1x8xf32>, tensor<3x1xi32>) -> tensor<3x1xf32>
  return
}

// -----

func.func @log_probabilities_c2(%x: tensor<2x1x8xf32>, %t: tensor<2x1xi32>) {
  // expected-error @below {{C2: expected a result of shape [2, 1], found [2]}}
  %0 = optimus.log_probabilities %x, %t : (tensor<2x1x8xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  return
}

// -----

// One sequence's cache serves queries that are tokens of it, one each.
func.func @attention_c1_of_one(%q: tensor<5x2x4x16xf32>, %k: tensor<1x8x4x16xf32>, %l: tensor<1xi32>, %p: tensor<5x2xi32>) {
  // expected-error @below {{C1: expected qkv of shape}}
  %o, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<5x2x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1xi32>, tensor<5x2xi32>) -> (tensor<5x2x4x16xf32>, tensor<1x4x5xf32>)
  return
}

// -----

func.func @attention_c4_of_one(%q: tensor<5x1x4x16xf32>, %k: tensor<1x8x4x16xf32>, %l: tensor<5xi32>, %p: tensor<5x1xi32>) {
  // expected-error @below {{C4: expected lengths of shape [1], found [5]}}
  %o, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<5x1x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<5xi32>, tensor<5x1xi32>) -> (tensor<5x1x4x16xf32>, tensor<1x4x5xf32>)
  return
}

// -----

func.func @part_c1(%x: tensor<2x8x3xf32>) {
  // expected-error @below {{C1: expected a packed tensor of rank 4 at least, found [2, 8, 3]}}
  %0 = optimus.part %x {index = 1 : i64} : (tensor<2x8x3xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @part_c1_result(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C1: expected a result of shape [2, 8, 4, 16], found [2, 8, 3, 16]}}
  %0 = optimus.part %x {index = 1 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x16xf32>
  return
}

// -----

func.func @part_c2(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C2: expected an index from 0 to 2, found 3}}
  %0 = optimus.part %x {index = 3 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @part_c3(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C3: expected a result of 'f32' elements, found 'bf16'}}
  %0 = optimus.part %x {index = 0 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xbf16>
  return
}

// -----

func.func @rotary_c7(%x: tensor<2x3x16xf32>) {
  // expected-error @below {{C7: expected a positive capacity with positions, found 8 and no positions}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, capacity = 8 : i64} : tensor<2x3x16xf32>
  return
}

// -----

func.func @attention_c9_queries(%q: tensor<2x3x2x4xf32>, %k: tensor<2x64x2x4xf32>, %l: tensor<2xi32>, %p: tensor<2x3xi32>, %t: tensor<2x2xi32>) {
  // expected-error @below {{C9: expected attention with pages to be cached, with one query a sequence}}
  %0, %1 = optimus.attention %q, %k, %k lengths(%l) positions(%p) pages(%t) {cached, causal} : (tensor<2x3x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2xi32>, tensor<2x3xi32>, tensor<2x2xi32>) -> (tensor<2x3x2x4xf32>, tensor<2x2x3xf32>)
  return
}

// -----

func.func @attention_c9_table(%q: tensor<2x1x2x4xf32>, %k: tensor<2x64x2x4xf32>, %l: tensor<2xi32>, %p: tensor<2x1xi32>, %t: tensor<3x2xi32>) {
  // expected-error @below {{C9: expected pages of shape [2, pages of a sequence], found [3, 2]}}
  %0, %1 = optimus.attention %q, %k, %k lengths(%l) positions(%p) pages(%t) {cached, causal} : (tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2xi32>, tensor<2x1xi32>, tensor<3x2xi32>) -> (tensor<2x1x2x4xf32>, tensor<2x2x1xf32>)
  return
}

// -----

func.func @cache_append_c7(%c: tensor<2x96x4x16xf32>, %x: tensor<2x1x4x16xf32>, %p: tensor<2x1xi32>, %t: tensor<2x2xi32>) {
  // expected-error @below {{C7: expected whole pages of 64 positions, found 96 positions a sequence}}
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<2x96x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<2x96x4x16xf32>
  return
}

// -----

func.func @take_c6(%x: tensor<2x64x8xf32>, %i: tensor<1xi32>, %t: tensor<2x2xi32>) {
  // expected-error @below {{C6: expected a length beside pages}}
  %0 = optimus.take %x, %i pages(%t) : (tensor<2x64x8xf32>, tensor<1xi32>, tensor<2x2xi32>) -> tensor<1x128x8xf32>
  return
}

// -----

func.func @take_c2_pages(%x: tensor<2x64x8xf32>, %i: tensor<1xi32>, %n: tensor<1xi32>, %t: tensor<2x2xi32>) {
  // expected-error @below {{C2: expected a result of shape [1, 128, 8], found [1, 64, 8]}}
  %0 = optimus.take %x, %i length(%n) pages(%t) : (tensor<2x64x8xf32>, tensor<1xi32>, tensor<1xi32>, tensor<2x2xi32>) -> tensor<1x64x8xf32>
  return
}
