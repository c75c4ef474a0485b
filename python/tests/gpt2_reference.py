# ===- gpt2_reference.py - GPT-2 in NumPy ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""GPT-2, its gradients and AdamW in NumPy, written from the model's equations.

It shares nothing with the compiler: tensors have Hugging Face's names and
shapes, and every gradient is derived by hand.
"""

import re
from typing import List, NamedTuple, Tuple

import numpy as np

from transformer_reference import (
    Tensors,
    Transformer,
    attention,
    attention_gradient,
    join,
    later,
    split,
)


class Gpt2(Transformer):
    """The loss of a batch and its gradients, in the dtype of `parameters`."""

    epsilon = 1e-5

    def __init__(self, parameters: Tensors, heads: int):
        self.p = parameters
        self.heads = heads
        layers = [re.match(r"h\.(\d+)\.", name) for name in parameters]
        self.layers = 1 + max(int(match.group(1)) for match in layers if match)

    # -------------------------------------------------------------- forward

    def _logits(self, tokens, _targets):
        p = self.p
        length = tokens.shape[1]
        x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
        x = x * self._factors(0, x)
        blocks = []
        for layer in range(self.layers):
            x, saved = self._block(x, "h.%d." % layer)
            blocks.append(saved)
        x, final_norm = self._norm(x, "ln_f")
        return x @ p["wte.weight"].T, (blocks, final_norm, x)

    def _block(self, x, prefix):
        y, norm_1 = self._norm(x, prefix + "ln_1")
        qkv = self._linear(y, prefix + "attn.c_attn")
        mixed, attention = self._attention(qkv)
        y_out = self._linear(mixed, prefix + "attn.c_proj")
        x = x + y_out * self._factors(self._dropouts(prefix)[0], x)
        z, norm_2 = self._norm(x, prefix + "ln_2")
        up = self._linear(z, prefix + "mlp.c_fc")
        activated, slope = _gelu(up)
        z_out = self._linear(activated, prefix + "mlp.c_proj")
        x = x + z_out * self._factors(self._dropouts(prefix)[1], x)
        return x, (y, norm_1, mixed, attention, z, norm_2, activated, slope)

    @staticmethod
    def _dropouts(prefix):
        """The numbers of a block's two dropouts; the embedding's is 0."""
        layer = int(prefix.split(".")[1])
        return 1 + 2 * layer, 2 + 2 * layer

    def _linear(self, x, name):
        return x @ self.p[name + ".weight"] + self.p[name + ".bias"]

    def _attention(self, qkv):
        parts = (split(part, self.heads) for part in np.split(qkv, 3, axis=-1))
        mixed, saved = attention(*parts, later(qkv.shape[1]))
        return join(mixed), saved

    # ------------------------------------------------------------- backward

    def _backward(self, tokens, tape, d_logits) -> Tensors:
        blocks, final_norm, x = tape
        g: Tensors = {}
        table = self.p["wte.weight"]
        flat = (-1, x.shape[-1])
        g["wte.weight"] = d_logits.reshape(-1, len(table)).T @ x.reshape(flat)
        dx = self._norm_gradient(d_logits @ table, final_norm, "ln_f", g)
        for layer in reversed(range(self.layers)):
            dx = self._block_gradient(dx, blocks[layer], "h.%d." % layer, g)
        dx = dx * self._factors(0, dx)
        np.add.at(g["wte.weight"], tokens.reshape(-1), dx.reshape(flat))
        g["wpe.weight"] = np.zeros_like(self.p["wpe.weight"])
        g["wpe.weight"][: tokens.shape[1]] = dx.sum(axis=0)
        return g

    def _block_gradient(self, dx, saved, prefix, g):
        y, norm_1, mixed, attention, z, norm_2, activated, slope = saved
        of_attention, of_mlp = self._dropouts(prefix)
        d = dx * self._factors(of_mlp, dx)
        d = self._linear_gradient(d, activated, prefix + "mlp.c_proj", g)
        d = self._linear_gradient(d * slope, z, prefix + "mlp.c_fc", g)
        dx = dx + self._norm_gradient(d, norm_2, prefix + "ln_2", g)
        d = dx * self._factors(of_attention, dx)
        d = self._linear_gradient(d, mixed, prefix + "attn.c_proj", g)
        d = self._attention_gradient(d, attention)
        d = self._linear_gradient(d, y, prefix + "attn.c_attn", g)
        return dx + self._norm_gradient(d, norm_1, prefix + "ln_1", g)

    def _linear_gradient(self, dy, x, name, g):
        rows = dy.reshape(-1, dy.shape[-1])
        g[name + ".weight"] = x.reshape(-1, x.shape[-1]).T @ rows
        g[name + ".bias"] = rows.sum(axis=0)
        return dy @ self.p[name + ".weight"].T

    def _attention_gradient(self, d, saved):
        parts = attention_gradient(split(d, self.heads), saved)
        return np.concatenate([join(part) for part in parts], axis=-1)


def _gelu(x):
    """GELU in its tanh form, and its derivative."""
    root = x.dtype.type(np.sqrt(2 / np.pi))
    cubic = x.dtype.type(0.044715)
    t = np.tanh(root * (x + cubic * x**3))
    inner = root * (1 + 3 * cubic * x**2)
    return x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t**2) * inner


class Hyper(NamedTuple):
    """AdamW with the runtime's defaults."""

    weight_decay: float = 0.1
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8


class AdamW:
    """Trains `parameters` in place, on the mean loss of each batch."""

    def __init__(self, parameters: Tensors, heads: int, hyper: Hyper = Hyper()):
        self.model = Gpt2(parameters, heads)
        self.hyper = hyper
        self.steps = 0
        self.m = {name: np.zeros_like(p) for name, p in parameters.items()}
        self.v = {name: np.zeros_like(p) for name, p in parameters.items()}

    def step(self, tokens, targets, lr: float) -> Tuple[float, float]:
        """One update; the mean loss before it and its gradient's norm."""
        h = self.hyper
        loss, count, gradients = self.model.loss_and_gradients(tokens, targets)
        squares = sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())
        norm = np.sqrt(squares) / count
        scale = min(1.0, h.clip / (norm + 1e-6)) / count
        self.steps += 1
        for name, p in self.model.p.items():
            g = gradients[name] * scale
            self.m[name] = h.beta1 * self.m[name] + (1 - h.beta1) * g
            self.v[name] = h.beta2 * self.v[name] + (1 - h.beta2) * g * g
            m = self.m[name] / (1 - h.beta1**self.steps)
            v = self.v[name] / (1 - h.beta2**self.steps)
            # Matrices decay; biases and the gains of norms do not.
            decay = h.weight_decay if p.ndim >= 2 else 0.0
            p -= lr * (m / (np.sqrt(v) + h.epsilon) + decay * p)
        return loss / count, norm


def windows(data: np.ndarray, sequence: int) -> Tuple[np.ndarray, np.ndarray]:
    """All windows of a file as (tokens, targets), [count, sequence] each."""
    count = (len(data) - 1) // sequence
    tokens = data[: count * sequence].reshape(count, sequence)
    targets = data[1 : count * sequence + 1].reshape(count, sequence)
    return tokens.astype(np.int64), targets.astype(np.int64)


def sequential_batch(
    data: np.ndarray, sequence: int, batch: int, step: int
) -> Tuple[np.ndarray, np.ndarray]:
    """What step `step`, from 0, reads under `--order sequential`."""
    tokens, targets = windows(data, sequence)
    chosen = np.arange(step * batch, (step + 1) * batch) % len(tokens)
    return tokens[chosen], targets[chosen]


def parameter_shapes(
    layers: int, hidden: int, sequence: int, vocabulary: int, ffn: int
) -> List[Tuple[str, Tuple[int, ...]]]:
    """Names and shapes of Hugging Face's GPT2Model, in its order."""
    shapes = [("wte.weight", (vocabulary, hidden)), ("wpe.weight", (sequence, hidden))]
    for layer in range(layers):
        shapes += [
            ("h.%d.%s" % (layer, name), shape)
            for name, shape in [
                ("ln_1.weight", (hidden,)),
                ("ln_1.bias", (hidden,)),
                ("attn.c_attn.weight", (hidden, 3 * hidden)),
                ("attn.c_attn.bias", (3 * hidden,)),
                ("attn.c_proj.weight", (hidden, hidden)),
                ("attn.c_proj.bias", (hidden,)),
                ("ln_2.weight", (hidden,)),
                ("ln_2.bias", (hidden,)),
                ("mlp.c_fc.weight", (hidden, ffn)),
                ("mlp.c_fc.bias", (ffn,)),
                ("mlp.c_proj.weight", (ffn, hidden)),
                ("mlp.c_proj.bias", (hidden,)),
            ]
        ]
    return shapes + [("ln_f.weight", (hidden,)), ("ln_f.bias", (hidden,))]
