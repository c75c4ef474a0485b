# ===- optimizers_reference.py - Optimizers in NumPy ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Optimizers beside AdamW in NumPy, written from their equations."""

from typing import NamedTuple, Tuple

import numpy as np

from gpt2_reference import Gpt2
from transformer_reference import Tensors


class Hyper(NamedTuple):
    """The scalars of all optimizers, with the runtime's defaults."""

    weight_decay: float = 0.1
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    momentum: float = 0.9


class Optimizer:
    """Trains `parameters` in place, on the mean loss of each batch."""

    STATES: Tuple[str, ...] = ()

    def __init__(self, parameters: Tensors, heads: int, hyper: Hyper = Hyper()):
        self.model = Gpt2(parameters, heads)
        self.hyper = hyper
        self.steps = 0
        self.states = {
            state: {name: np.zeros_like(p) for name, p in parameters.items()}
            for state in self.STATES
        }

    def step(self, tokens, targets, lr: float) -> Tuple[float, float]:
        """One update; the mean loss before it and its gradient's norm."""
        loss, count, gradients = self.model.loss_and_gradients(tokens, targets)
        squares = sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())
        norm = np.sqrt(squares) / count
        scale = min(1.0, self.hyper.clip / (norm + 1e-6)) / count
        self.steps += 1
        for name, p in self.model.p.items():
            # Matrices decay; biases and the gains of norms do not.
            self.update(name, p, gradients[name] * scale, lr, p.ndim >= 2)
        return loss / count, norm

    def update(self, name, p, g, lr, decays):
        raise NotImplementedError


class Sgd(Optimizer):
    STATES = ("momentum_buffer",)

    def update(self, name, p, g, lr, decays):
        if decays:
            g = g + self.hyper.weight_decay * p
        buffers = self.states["momentum_buffer"]
        buffers[name] = self.hyper.momentum * buffers[name] + g
        p -= lr * buffers[name]


class Lamb(Optimizer):
    STATES = ("exp_avg", "exp_avg_sq")

    def update(self, name, p, g, lr, decays):
        h = self.hyper
        m, v = (self.states[state] for state in self.STATES)
        m[name] = h.beta1 * m[name] + (1 - h.beta1) * g
        v[name] = h.beta2 * v[name] + (1 - h.beta2) * g * g
        direction = m[name] / (1 - h.beta1**self.steps)
        direction /= np.sqrt(v[name] / (1 - h.beta2**self.steps)) + h.epsilon
        ratio = 1.0
        if decays:
            direction += h.weight_decay * p
            norms = [float(np.linalg.norm(x.astype(np.float64))) for x in (p, direction)]
            if min(norms) > 0:
                ratio = norms[0] / norms[1]
        p -= (lr * ratio * direction).astype(p.dtype)


class Lion(Optimizer):
    STATES = ("exp_avg",)

    def update(self, name, p, g, lr, decays):
        h, m = self.hyper, self.states["exp_avg"]
        direction = np.sign(h.beta1 * m[name] + (1 - h.beta1) * g)
        p -= lr * (direction + (h.weight_decay * p if decays else 0))
        m[name] = h.beta2 * m[name] + (1 - h.beta2) * g


class Adagrad(Optimizer):
    STATES = ("sum",)

    def update(self, name, p, g, lr, decays):
        if decays:
            g = g + self.hyper.weight_decay * p
        sums = self.states["sum"]
        sums[name] = sums[name] + g * g
        p -= lr * g / (np.sqrt(sums[name]) + self.hyper.epsilon)


OPTIMIZERS = {"sgd": Sgd, "lamb": Lamb, "lion": Lion, "adagrad": Adagrad}


def learning_rate(step, steps, schedule, peak, warmup=0, lowest=None, decay_steps=0):
    """Of a step, from 1, of a run."""
    if lowest is None:
        lowest = 0.0 if schedule == "inverse-sqrt" else peak / 10
    if step <= warmup:
        return peak * step / warmup
    if schedule == "constant":
        return peak
    if schedule in ("cosine", "linear"):
        length = decay_steps or steps - warmup
        done = min(1.0, (step - warmup) / length)
        left = 1 - done if schedule == "linear" else (1 + np.cos(np.pi * done)) / 2
        return lowest + left * (peak - lowest)

    def level(at):
        if schedule == "wsd":
            return peak
        return max(lowest, peak * (max(warmup, 1) / at) ** 0.5)

    length = decay_steps or (-(-steps // 10) if schedule == "wsd" else 0)
    begin = max(warmup, steps - length)
    if step <= begin:
        return level(step)
    # Nothing comes before the first step.
    high = level(begin) if begin else peak
    return lowest + (high - lowest) * (steps - step) / (steps - begin)
