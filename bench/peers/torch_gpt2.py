#!/usr/bin/env python3
# ===- torch_gpt2.py - A training step of GPT-2 in PyTorch -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of GPT-2 in PyTorch on the CPU, in f32 or, with
--precision bf16, under autocast.

The model is that of `optimus.models gpt2`: tied head, tanh GELU, no dropout,
AdamW with decay on matrices only, gradients clipped to norm 1. The first steps
warm up (and compile); the timed ones follow. Every line of standard output is
a JSON object:

    {"torch": "2.9.0", "parameters": 29900000, "compiled": true, …}   first
    {"step": 1, "ms": 2512.3, "loss": 10.9}                           each step

With --serve, a line "N" on standard input runs N steps, so that another program
can interleave its own measurements in one sitting; the end of the input ends
it. A line {"ready": true} follows the warm-up.
"""

import argparse
import json
import math
import os
import sys
import time


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for flag, default in [
        ("--vocab", 50304),
        ("--layers", 6),
        ("--hidden", 384),
        ("--heads", 6),
        ("--seq", 256),
        ("--batch", 8),
        ("--threads", 2),
        ("--steps", 10),
        ("--warmup", 3),
    ]:
        parser.add_argument(
            flag, type=int, default=default, help="default: %(default)s"
        )
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument(
        "--checkpoint",
        action="store_true",
        help="keep each block's input only and recompute the block (activation "
        "checkpointing)",
    )
    parser.add_argument(
        "--serve", action="store_true", help="take numbers of steps from stdin"
    )
    return parser.parse_args()


def emit(**fields):
    print(json.dumps(fields), flush=True)


def build(options):
    """The model, whose forward pass is the mean loss of a batch."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint

    hidden, heads = options.hidden, options.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1 = nn.LayerNorm(hidden)
            self.c_attn = nn.Linear(hidden, 3 * hidden)
            self.attn_proj = nn.Linear(hidden, hidden)
            self.ln_2 = nn.LayerNorm(hidden)
            self.c_fc = nn.Linear(hidden, 4 * hidden)
            self.mlp_proj = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            b, s, h = x.shape
            qkv = self.c_attn(self.ln_1(x)).view(b, s, 3, heads, h // heads)
            q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_proj(y.transpose(1, 2).reshape(b, s, h))
            y = F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
            return x + self.mlp_proj(y)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(options.vocab, hidden)
            self.wpe = nn.Embedding(options.seq, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(options.layers))
            self.ln_f = nn.LayerNorm(hidden)
            for name, parameter in self.named_parameters():
                if parameter.ndim >= 2:
                    scale = math.sqrt(2 * options.layers) if "_proj" in name else 1
                    nn.init.normal_(parameter, std=0.02 / scale)
                elif name.endswith("bias"):
                    nn.init.zeros_(parameter)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe.weight
            for block in self.blocks:
                if options.checkpoint:
                    x = checkpoint(block, x, use_reentrant=False)
                else:
                    x = block(x)
            logits = F.linear(self.ln_f(x), self.wte.weight)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Gpt2()


class Trainer:
    def __init__(self, options):
        import torch

        self._torch = torch
        self._options = options
        self.model = build(options)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in parameters if p.ndim >= 2]},
                {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=6e-4,
            betas=(0.9, 0.95),
            weight_decay=0.1,
            fused=True,
        )
        self._loss = torch.compile(self.model) if options.compile else self.model
        self.steps = 0

    def batch(self):
        shape = (self._options.batch, self._options.seq + 1)
        window = self._torch.randint(0, self._options.vocab, shape)
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()

    def step(self):
        """One update: its time in seconds and the loss before it."""
        tokens, targets = self.batch()
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        with self._torch.autocast(
            "cpu", self._torch.bfloat16, enabled=self._options.precision == "bf16"
        ):
            loss = self._loss(tokens, targets)
        loss.backward()
        self._torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        value = loss.item()
        seconds = time.perf_counter() - begin
        self.steps += 1
        return seconds, value

    def timed(self, count):
        for _ in range(count):
            seconds, loss = self.step()
            emit(step=self.steps, ms=round(1e3 * seconds, 3), loss=round(loss, 5))


def main():
    options = parse()
    # Threads that spin at barriers take a busy machine's cores from each other:
    # with a third process running, compiled steps took six times as long. The
    # variable is read when PyTorch is loaded, so one that is set is kept.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import torch
    except ImportError:
        print(
            "torch_gpt2.py: error: PyTorch is missing; install it with "
            "'python3 -m pip install torch' in the Python that runs this",
            file=sys.stderr,
        )
        return 1
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    trainer = Trainer(options)
    emit(
        torch=torch.__version__,
        parameters=sum(p.numel() for p in trainer.model.parameters()),
        compiled=options.compile,
        threads=torch.get_num_threads(),
        wait_policy=os.environ["OMP_WAIT_POLICY"],
        vocab=options.vocab,
        warmup=options.warmup,
    )
    for _ in range(options.warmup):
        trainer.step()
    trainer.steps = 0
    if not options.serve:
        trainer.timed(options.steps)
        return 0
    emit(ready=True)
    for line in sys.stdin:
        trainer.timed(int(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
