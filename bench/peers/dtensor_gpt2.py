#!/usr/bin/env python3
# ===- dtensor_gpt2.py - Tensor-parallel GPT-2 in PyTorch ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of GPT-2 under PyTorch's DTensor tensor parallelism, on
the CPU, with processes that communicate by gloo.

`parallelize_module` with the plan that PyTorch's own tutorial gives: q, k, v and
up projections column-wise, output and down projections row-wise, embedding and
tied head sharded by vocabulary, and the loss with `loss_parallel`. See work.py for
the work. It starts its own processes; --ranks says how many.
"""

import os
import socket
import subprocess
import sys
import time

import work


def parse():
    parser = work.parser(__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    return parser.parse_args()


def build(options, tensors, sequence):
    """The whole model with the checkpoint's weights."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    hidden = tensors["wpe.weight"].shape[1]
    vocab = tensors["wte.weight"].shape[0]
    size = hidden // options.heads

    def linear(name, part=None):
        weight, bias = tensors[name + ".weight"], tensors[name + ".bias"]
        if part is not None:  # q, k or v of c_attn
            columns = slice(part * hidden, (part + 1) * hidden)
            weight, bias = weight[:, columns], bias[columns]
        layer = nn.Linear(*weight.shape)
        layer.weight.data = torch.tensor(weight.T.copy())
        layer.bias.data = torch.tensor(bias)
        return layer

    def norm(name):
        layer = nn.LayerNorm(hidden, eps=work.NORM_EPSILON)
        layer.weight.data = torch.tensor(tensors[name + ".weight"])
        layer.bias.data = torch.tensor(tensors[name + ".bias"])
        return layer

    class Block(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.ln_1, self.ln_2 = norm(name + ".ln_1"), norm(name + ".ln_2")
            self.q, self.k, self.v = (linear(name + ".attn.c_attn", i) for i in range(3))
            self.out = linear(name + ".attn.c_proj")
            self.up = linear(name + ".mlp.c_fc")
            self.down = linear(name + ".mlp.c_proj")

        def forward(self, x):
            b, s, h = x.shape
            y = self.ln_1(x)
            # Each rank has its own heads, hence the -1.
            q, k, v = (
                layer(y).view(b, s, -1, size).transpose(1, 2)
                for layer in (self.q, self.k, self.v)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, s, -1))
            return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(vocab, hidden)
            self.wte.weight.data = torch.tensor(tensors["wte.weight"])
            self.wpe = nn.Parameter(torch.tensor(tensors["wpe.weight"]))
            self.blocks = nn.ModuleList(
                Block(f"h.{layer}") for layer in range(work.num_layers(tensors))
            )
            self.ln_f = norm("ln_f")
            self.head = nn.Linear(hidden, vocab, bias=False)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln_f(x))

    return Gpt2()


def parallelize(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {
        "wte": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
        "blocks.*.out": RowwiseParallel(),
        "blocks.*.down": RowwiseParallel(),
    }
    for name in ("q", "k", "v", "up"):
        plan[f"blocks.*.{name}"] = ColwiseParallel()
    parallelize_module(model, mesh, plan)
    model.head.weight = model.wte.weight


class Trainer:
    def __init__(self, options, mesh, tensors):
        import torch
        from torch.distributed.tensor import DTensor

        self._torch = torch
        sequence = tensors["wpe.weight"].shape[0]
        self._windows = work.Windows(options, sequence)
        self._model = build(options, tensors, sequence)
        parallelize(self._model, mesh)
        # Whole and sharded tensors do not mix in one call of the optimizer.
        groups = [[], []]
        for parameter in self._model.parameters():
            groups[isinstance(parameter, DTensor)].append(parameter)
        self._groups = groups
        self._optimizers = [
            torch.optim.AdamW(
                [
                    {"params": [p for p in group if p.ndim >= 2]},
                    {"params": [p for p in group if p.ndim < 2], "weight_decay": 0.0},
                ],
                lr=options.lr,
                betas=work.BETAS,
                eps=work.EPSILON,
                weight_decay=work.DECAY,
                foreach=True,
            )
            for group in groups
        ]
        self._forward = torch.compile(self._model) if options.compile else self._model

    def _clip(self):
        from torch.distributed.tensor import DTensor
        from torch.nn.utils import clip_grads_with_norm_, get_total_norm

        norms = []
        for group in self._groups:
            norm = get_total_norm([p.grad for p in group], foreach=True)
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        total = self._torch.stack(norms).norm()
        for group in self._groups:
            clip_grads_with_norm_(group, work.CLIP, total, foreach=True)

    def step(self, k):
        import torch.distributed as dist
        from torch.distributed.tensor.parallel import loss_parallel
        from torch.nn import functional as F

        tokens, targets = map(self._torch.tensor, self._windows.batch(k))
        targets = targets.long().flatten()
        dist.barrier()
        begin = time.perf_counter()
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        with loss_parallel():
            logits = self._forward(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), targets)
            loss.backward()
        self._clip()
        for optimizer in self._optimizers:
            optimizer.step()
        value = loss.full_tensor().item()
        dist.barrier()
        return 1e3 * (time.perf_counter() - begin), value


def rank_main(options):
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(options.threads)
    mesh = init_device_mesh("cpu", (options.ranks,))
    trainer = Trainer(options, mesh, work.parameters(options))
    if dist.get_rank() == 0:
        how = "compiled" if options.compile else "eager"
        work.emit(
            ready=True,
            peer=f"PyTorch {torch.__version__}",
            how=f"DTensor tensor parallel, {how}, {options.ranks} processes, gloo",
        )

        def step(k):
            dist.broadcast_object_list([k])
            return trainer.step(k)

        work.serve(step)
        dist.broadcast_object_list([None])
    else:
        while True:
            box = [None]
            dist.broadcast_object_list(box)
            if box[0] is None:
                break
            trainer.step(box[0])
    dist.destroy_process_group()


def main():
    options = parse()
    if "RANK" in os.environ:
        rank_main(options)
        return 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(
        os.environ,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        WORLD_SIZE=str(options.ranks),
        OMP_NUM_THREADS=str(options.threads),
    )
    environment.setdefault("OMP_WAIT_POLICY", "passive")
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=None if rank == 0 else subprocess.DEVNULL,
        )
        for rank in range(options.ranks)
    ]
    # A rank that fails leaves the others waiting for it.
    while ranks:
        for process in list(ranks):
            try:
                status = process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            ranks.remove(process)
            if status != 0:
                for other in ranks:
                    other.kill()
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
