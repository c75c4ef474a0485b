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
from typing import Dict, List, Tuple

import numpy as np

Tensors = Dict[str, np.ndarray]

EPSILON = 1e-12
EMBEDDINGS = "bert.embeddings."
WORDS = EMBEDDINGS + "word_embeddings.weight"
HEAD = "cls.predictions."

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Bert:
    """The loss of a batch and its gradients, in f64."""

    def __init__(self, parameters: Tensors, heads: int, pad: int = 0):
        self.p = parameters
        self.heads = heads
        self.pad = pad
        self.dropout = None
        """philox.Dropout of a step, or None."""
        prefix = "bert.encoder.layer."
        numbers = [n[len(prefix) :] for n in parameters if n.startswith(prefix)]
        self.layers = 1 + max(int(name.split(".")[0]) for name in numbers)

    def loss(self, tokens: np.ndarray, targets: np.ndarray) -> Tuple[float, int]:
        """Cross-entropy in nats, summed over targets >= 0, and their number."""
        loss, count, _ = self._forward(tokens, targets)
        return loss, count

    def loss_and_gradients(
        self, tokens: np.ndarray, targets: np.ndarray
    ) -> Tuple[float, int, Tensors]:
        """As `loss`, with the gradient of the sum for every parameter."""
        loss, count, tape = self._forward(tokens, targets)
        return loss, count, self._backward(tokens, tape)

    def seen(self, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Which keys of each sequence are no padding, [b, s]: padding ended the
        sequence before tokens of it, those with targets, were hidden."""
        length = tokens.shape[1]
        real = (tokens != self.pad) | (targets >= 0)
        last = [max(np.flatnonzero(row), default=0) for row in real]
        return np.arange(length)[None] <= np.array(last)[:, None]

    # -------------------------------------------------------------- forward

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Nothing is hidden."""
        return self._logits(tokens, np.full_like(tokens, -1))[0]

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

    def _forward(self, tokens, targets):
        logits, tape = self._logits(tokens, targets)
        logits = logits - logits.max(axis=-1, keepdims=True)
        exponentials = np.exp(logits)
        sums = exponentials.sum(axis=-1, keepdims=True)
        real = targets >= 0
        chosen = np.where(real, targets, 0)[..., None]
        picked = np.take_along_axis(logits, chosen, axis=-1) - np.log(sums)
        loss = -float(picked[..., 0][real].sum())
        d_logits = exponentials / sums
        update = np.take_along_axis(d_logits, chosen, axis=-1) - 1
        np.put_along_axis(d_logits, chosen, update, axis=-1)
        d_logits *= real[..., None]
        return loss, int(real.sum()), (*tape, d_logits)

    def _block(self, x, layer, hidden_keys):
        prefix = "bert.encoder.layer.%d." % layer
        q, k, v = (
            self._split(self._linear(x, prefix + "attention.self." + part))
            for part in ("query", "key", "value")
        )
        scale = 1 / math.sqrt(q.shape[-1])
        scores = q @ k.swapaxes(-1, -2) * scale
        scores = np.where(hidden_keys[:, None, None, :], -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = self._join(weights @ v)
        y = self._linear(mixed, prefix + "attention.output.dense")
        y = x + y * self._factors(1 + 2 * layer, x)
        y, norm_1 = self._norm(y, prefix + "attention.output.LayerNorm")
        up = self._linear(y, prefix + "intermediate.dense")
        activated, slope = _gelu(up)
        z = self._linear(activated, prefix + "output.dense")
        z = y + z * self._factors(2 + 2 * layer, y)
        z, norm_2 = self._norm(z, prefix + "output.LayerNorm")
        return z, (x, q, k, v, scale, weights, mixed, norm_1, y, activated, slope, norm_2)

    def _factors(self, number, x):
        """What dropout `number` multiplies x with."""
        return 1.0 if self.dropout is None else self.dropout.factors(number, x.shape)

    def _linear(self, x, name):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def _norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        x_hat = centred * rstd
        return x_hat * self.p[name + ".weight"] + self.p[name + ".bias"], (x_hat, rstd)

    def _split(self, x):
        """[b, s, h] to [b, n, s, d]."""
        b, s, h = x.shape
        return x.reshape(b, s, self.heads, h // self.heads).transpose(0, 2, 1, 3)

    @staticmethod
    def _join(x):
        b, n, s, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, s, n * d)

    # ------------------------------------------------------------- backward

    def _backward(self, tokens, tape) -> Tensors:
        first_norm, blocks, x, slope, head_norm, y, d_logits = tape
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
        x, q, k, v, scale, weights, mixed, norm_1, y, activated, slope, norm_2 = saved
        dz = self._norm_gradient(dz, norm_2, prefix + "output.LayerNorm", g)
        d = dz * self._factors(2 + 2 * layer, dz)
        d = self._linear_gradient(d, activated, prefix + "output.dense", g)
        dy = dz + self._linear_gradient(d * slope, y, prefix + "intermediate.dense", g)
        dy = self._norm_gradient(dy, norm_1, prefix + "attention.output.LayerNorm", g)
        d = dy * self._factors(1 + 2 * layer, dy)
        d = self._split(
            self._linear_gradient(d, mixed, prefix + "attention.output.dense", g)
        )
        dv = weights.swapaxes(-1, -2) @ d
        d_weights = d @ v.swapaxes(-1, -2)
        inner = (d_weights * weights).sum(axis=-1, keepdims=True)
        d_scores = weights * (d_weights - inner) * scale
        parts = {
            "query": d_scores @ k,
            "key": d_scores.swapaxes(-1, -2) @ q,
            "value": dv,
        }
        dx = dy
        for part, gradient in parts.items():
            name = prefix + "attention.self." + part
            dx = dx + self._linear_gradient(self._join(gradient), x, name, g)
        return dx

    def _linear_gradient(self, dy, x, name, g):
        rows = dy.reshape(-1, dy.shape[-1])
        g[name + ".weight"] = rows.T @ x.reshape(-1, x.shape[-1])
        g[name + ".bias"] = rows.sum(axis=0)
        return dy @ self.p[name + ".weight"]

    def _norm_gradient(self, dy, saved, name, g):
        x_hat, rstd = saved
        g[name + ".weight"] = (dy * x_hat).sum(axis=(0, 1))
        g[name + ".bias"] = dy.sum(axis=(0, 1))
        d = dy * self.p[name + ".weight"]
        along = (d * x_hat).mean(axis=-1, keepdims=True)
        return rstd * (d - d.mean(axis=-1, keepdims=True) - x_hat * along)


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
