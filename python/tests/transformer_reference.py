# ===- transformer_reference.py - What transformers share, in NumPy --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Losses, attention, norms and linears of transformers with their gradients, in NumPy.

It shares nothing with the compiler, and every gradient is derived by hand.
"""

from typing import Dict, Tuple

import numpy as np

Tensors = Dict[str, np.ndarray]


def cross_entropy(logits: np.ndarray, targets: np.ndarray) -> Tuple[float, int, np.ndarray]:
    """In nats, summed over targets >= 0; their number, and the gradient of the sum."""
    logits = logits - logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(logits)
    sums = exponentials.sum(axis=-1, keepdims=True)
    real = targets >= 0
    chosen = np.where(real, targets, 0)[..., None]
    picked = np.take_along_axis(logits, chosen, axis=-1) - np.log(sums)
    loss = -float(picked[..., 0][real].sum(dtype=np.float64))
    d_logits = exponentials / sums
    update = np.take_along_axis(d_logits, chosen, axis=-1) - 1
    np.put_along_axis(d_logits, chosen, update, axis=-1)
    return loss, int(real.sum()), d_logits * real[..., None]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, hidden: np.ndarray):
    """Of [b, n, s, d]; `hidden` says which keys a query does not see."""
    scale = q.dtype.type(1 / np.sqrt(q.shape[-1]))
    scores = np.where(hidden, -np.inf, q @ k.swapaxes(-1, -2) * scale)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v, (q, k, v, weights, scale)


def attention_gradient(d: np.ndarray, saved):
    """Of q, k and v."""
    q, k, v, weights, scale = saved
    dv = weights.swapaxes(-1, -2) @ d
    d_weights = d @ v.swapaxes(-1, -2)
    inner = (d_weights * weights).sum(axis=-1, keepdims=True)
    d_scores = weights * (d_weights - inner) * scale
    return d_scores @ k, d_scores.swapaxes(-1, -2) @ q, dv


def later(length: int) -> np.ndarray:
    """The keys behind each query."""
    return np.triu(np.ones((length, length), bool), k=1)


def split(x: np.ndarray, heads: int) -> np.ndarray:
    """[b, s, h] to [b, n, s, d]."""
    b, s, h = x.shape
    return x.reshape(b, s, heads, h // heads).transpose(0, 2, 1, 3)


def join(x: np.ndarray) -> np.ndarray:
    b, n, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, n * d)


class Transformer:
    """The loss of a batch and its gradients, in the dtype of the parameters `p`.

    A model has _logits(), with a tape beside them, and _backward() of the tape and of
    the gradient of logits. Weights of linears are [out, in], biases are optional, and
    norms are of layers, with `epsilon`.
    """

    dropout = None
    """philox.Dropout of a step, or None."""

    def loss(self, tokens: np.ndarray, targets: np.ndarray) -> Tuple[float, int]:
        """Cross-entropy in nats, summed over targets >= 0, and their number."""
        return cross_entropy(self._logits(tokens, targets)[0], targets)[:2]

    def loss_and_gradients(
        self, tokens: np.ndarray, targets: np.ndarray
    ) -> Tuple[float, int, Tensors]:
        """As `loss`, with the gradient of the sum for every parameter."""
        logits, tape = self._logits(tokens, targets)
        loss, count, d_logits = cross_entropy(logits, targets)
        return loss, count, self._backward(tokens, tape, d_logits)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Without targets no token is hidden."""
        return self._logits(tokens, np.full_like(tokens, -1))[0]

    def _factors(self, number, x):
        """What dropout `number` multiplies x with."""
        if self.dropout is None:
            return x.dtype.type(1)
        return self.dropout.factors(number, x.shape).astype(x.dtype)

    def _linear(self, x, name):
        return x @ self.p[name + ".weight"].T + self.p.get(name + ".bias", 0)

    def _linear_gradient(self, dy, x, name, g):
        rows = dy.reshape(-1, dy.shape[-1])
        g[name + ".weight"] = rows.T @ x.reshape(-1, x.shape[-1])
        if name + ".bias" in self.p:
            g[name + ".bias"] = rows.sum(axis=0)
        return dy @ self.p[name + ".weight"]

    def _norm(self, x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        rstd = 1 / np.sqrt(variance + x.dtype.type(self.epsilon))
        x_hat = centred * rstd
        return x_hat * self.p[name + ".weight"] + self.p[name + ".bias"], (x_hat, rstd)

    def _norm_gradient(self, dy, saved, name, g):
        x_hat, rstd = saved
        g[name + ".weight"] = (dy * x_hat).sum(axis=(0, 1))
        g[name + ".bias"] = dy.sum(axis=(0, 1))
        d = dy * self.p[name + ".weight"]
        along = (d * x_hat).mean(axis=-1, keepdims=True)
        return rstd * (d - d.mean(axis=-1, keepdims=True) - x_hat * along)
