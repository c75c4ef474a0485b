# ===- bert_reference.py - BERT in NumPy ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""BERT for masked tokens and its gradients in NumPy, from the model's equations.

It shares nothing with the compiler: tensors have Hugging Face's names and
shapes, weights are [out, in], and every gradient is derived by hand.
"""

import math
from typing import List, Tuple

import numpy as np

from transformer_reference import (
    Tensors,
    Transformer,
    attention,
    attention_gradient,
    join,
    split,
)

EMBEDDINGS = "bert.embeddings."
WORDS = EMBEDDINGS + "word_embeddings.weight"
HEAD = "cls.predictions."

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Bert(Transformer):
    """The loss of a batch and its gradients, in f64."""

    epsilon = 1e-12

    def __init__(self, parameters: Tensors, heads: int, pad: int = 0):
        self.p = parameters
        self.heads = heads
        self.pad = pad
        prefix = "bert.encoder.layer."
        numbers = [n[len(prefix) :] for n in parameters if n.startswith(prefix)]
        self.layers = 1 + max(int(name.split(".")[0]) for name in numbers)

    def seen(self, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Which keys of each sequence are no padding, [b, s]: padding ended the
        sequence before tokens of it, those with targets, were hidden."""
        length = tokens.shape[1]
        real = (tokens != self.pad) | (targets >= 0)
        last = [max(np.flatnonzero(row), default=0) for row in real]
        return np.arange(length)[None] <= np.array(last)[:, None]

    # -------------------------------------------------------------- forward

    def hidden_states(self, tokens: np.ndarray) -> np.ndarray:
        """What comes out of the last layer, before a head."""
        return self._encode(tokens, np.full_like(tokens, -1))[0]

    def _encode(self, tokens, targets):
        p = self.p
        x = (
            p[WORDS][tokens]
            + p[EMBEDDINGS + "position_embeddings.weight"][: tokens.shape[1]]
            + p[EMBEDDINGS + "token_type_embeddings.weight"][0]
        )
        x, first_norm = self._norm(x, EMBEDDINGS + "LayerNorm")
        x = x * self._factors(0, x)
        hidden_keys = ~self.seen(tokens, targets)
        blocks = []
        for layer in range(self.layers):
            x, saved = self._block(x, layer, hidden_keys)
            blocks.append(saved)
        return x, first_norm, blocks

    def _logits(self, tokens, targets):
        p = self.p
        x, first_norm, blocks = self._encode(tokens, targets)
        up = self._linear(x, HEAD + "transform.dense")
        activated, slope = _gelu(up)
        y, head_norm = self._norm(activated, HEAD + "transform.LayerNorm")
        logits = y @ p[WORDS].T + p[HEAD + "bias"]
        return logits, (first_norm, blocks, x, slope, head_norm, y)

    def _block(self, x, layer, hidden_keys):
        prefix = "bert.encoder.layer.%d." % layer
        q, k, v = (
            split(self._linear(x, prefix + "attention.self." + part), self.heads)
            for part in ("query", "key", "value")
        )
        mixed, attended = attention(q, k, v, hidden_keys[:, None, None, :])
        mixed = join(mixed)
        y = self._linear(mixed, prefix + "attention.output.dense")
        y = x + y * self._factors(1 + 2 * layer, x)
        y, norm_1 = self._norm(y, prefix + "attention.output.LayerNorm")
        up = self._linear(y, prefix + "intermediate.dense")
        activated, slope = _gelu(up)
        z = self._linear(activated, prefix + "output.dense")
        z = y + z * self._factors(2 + 2 * layer, y)
        z, norm_2 = self._norm(z, prefix + "output.LayerNorm")
        return z, (x, attended, mixed, norm_1, y, activated, slope, norm_2)

    # ------------------------------------------------------------- backward

    def _backward(self, tokens, tape, d_logits) -> Tensors:
        first_norm, blocks, x, slope, head_norm, y = tape
        g: Tensors = {}
        words = self.p[WORDS]
        flat = (-1, x.shape[-1])
        rows = d_logits.reshape(-1, len(words))
        g[WORDS] = rows.T @ y.reshape(flat)
        g[HEAD + "bias"] = rows.sum(axis=0)
        d = self._norm_gradient(d_logits @ words, head_norm, HEAD + "transform.LayerNorm", g)
        dx = self._linear_gradient(d * slope, x, HEAD + "transform.dense", g)
        for layer in reversed(range(self.layers)):
            dx = self._block_gradient(dx, blocks[layer], layer, g)
        dx = dx * self._factors(0, dx)
        dx = self._norm_gradient(dx, first_norm, EMBEDDINGS + "LayerNorm", g)
        # As torch.nn.Embedding(padding_idx=pad): look-ups of padding do not count.
        learnt = tokens.reshape(-1) != self.pad
        np.add.at(g[WORDS], tokens.reshape(-1)[learnt], dx.reshape(flat)[learnt])
        for name, gradient in [("position", dx.sum(axis=0)), ("token_type", dx.sum(axis=(0, 1)))]:
            name = EMBEDDINGS + name + "_embeddings.weight"
            g[name] = np.zeros_like(self.p[name])
            g[name][: len(gradient) if gradient.ndim == 2 else 1] = gradient
        return g

    def _block_gradient(self, dz, saved, layer, g):
        prefix = "bert.encoder.layer.%d." % layer
        x, attended, mixed, norm_1, y, activated, slope, norm_2 = saved
        dz = self._norm_gradient(dz, norm_2, prefix + "output.LayerNorm", g)
        d = dz * self._factors(2 + 2 * layer, dz)
        d = self._linear_gradient(d, activated, prefix + "output.dense", g)
        dy = dz + self._linear_gradient(d * slope, y, prefix + "intermediate.dense", g)
        dy = self._norm_gradient(dy, norm_1, prefix + "attention.output.LayerNorm", g)
        d = dy * self._factors(1 + 2 * layer, dy)
        d = self._linear_gradient(d, mixed, prefix + "attention.output.dense", g)
        parts = attention_gradient(split(d, self.heads), attended)
        dx = dy
        for part, gradient in zip(("query", "key", "value"), parts):
            name = prefix + "attention.self." + part
            dx = dx + self._linear_gradient(join(gradient), x, name, g)
        return dx


def _gelu(x):
    """Exact GELU and its derivative."""
    below = (1 + _erf(x / math.sqrt(2))) / 2
    return x * below, below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def parameter_shapes(
    layers: int, hidden: int, sequence: int, vocabulary: int, ffn: int
) -> List[Tuple[str, Tuple[int, ...]]]:
    """Names and shapes of Hugging Face's BertForMaskedLM."""
    h, f = hidden, ffn

    def linear(name, out, into):
        return [(name + ".weight", (out, into)), (name + ".bias", (out,))]

    def norm(name):
        return [(name + ".weight", (h,)), (name + ".bias", (h,))]

    shapes = [
        (WORDS, (vocabulary, h)),
        (EMBEDDINGS + "position_embeddings.weight", (sequence, h)),
        (EMBEDDINGS + "token_type_embeddings.weight", (2, h)),
        *norm(EMBEDDINGS + "LayerNorm"),
    ]
    for layer in range(layers):
        prefix = "bert.encoder.layer.%d." % layer
        for part in ("query", "key", "value"):
            shapes += linear(prefix + "attention.self." + part, h, h)
        shapes += linear(prefix + "attention.output.dense", h, h)
        shapes += norm(prefix + "attention.output.LayerNorm")
        shapes += linear(prefix + "intermediate.dense", f, h)
        shapes += linear(prefix + "output.dense", h, f)
        shapes += norm(prefix + "output.LayerNorm")
    return shapes + [
        (HEAD + "bias", (vocabulary,)),
        *linear(HEAD + "transform.dense", h, h),
        *norm(HEAD + "transform.LayerNorm"),
    ]
