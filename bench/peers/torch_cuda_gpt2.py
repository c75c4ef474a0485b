#!/usr/bin/env python3
# ===- torch_cuda_gpt2.py - GPT-2 in PyTorch on a GPU, at its best ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of the model of torch_gpt2.py on a GPU, in bf16 by autocast:
torch.compile, fused AdamW, TF32 where f32 is left, and each of PyTorch's attentions,
the fastest of which counts. The last line of standard output is a JSON object:

    {"torch": "2.11.0", "best": {"batch": 16, "ms": 91.2, "attention": "cudnn", …}, "all": […]}

or {"skipped": "why"} where there is no PyTorch or no GPU for it. With --largest it
is the largest multiple of --batch that trains, found by trying:

    {"torch": "2.11.0", "largest": {"batch": 48, "peak_bytes": 71234567890}}
"""

import argparse
import functools
import json
import statistics
import sys
import time

from torch_gpt2 import build

ATTENTIONS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("vocab", "layers", "hidden", "heads", "seq", "batch"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--warmup", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--largest", action="store_true", help="find the largest batch")
    return parser.parse_args()


def attending(attention):
    """While this lasts, attention is of one kind."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(getattr(SDPBackend, ATTENTIONS[attention]))


def make_step(torch, options, dynamic=None):
    """A training step of a new model, as a function of the batch's size."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    with torch.device("cuda"):
        model = build(options)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2]},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model, dynamic=dynamic)

    @functools.lru_cache(maxsize=1)
    def draw(batch):
        window = torch.randint(0, options.vocab, (batch, options.seq + 1), device="cuda")
        return window[:, :-1].contiguous(), window[:, 1:].contiguous()

    def step(batch):
        tokens, targets = draw(batch)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()

    return step


def timed_steps(torch, options, attention):
    """Milliseconds of each step with one kind of attention."""
    step = make_step(torch, options)
    milliseconds = []
    with attending(attention):
        for number in range(options.warmup + options.steps):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            step(options.batch)
            torch.cuda.synchronize()
            if number >= options.warmup:
                milliseconds.append(1e3 * (time.perf_counter() - begin))
    return milliseconds


def measure(torch, options):
    found = []
    for attention in ATTENTIONS:
        torch.cuda.reset_peak_memory_stats()
        try:
            ms = statistics.median(timed_steps(torch, options, attention))
        # Problems refused by cuDNN, and a lack of memory.
        except RuntimeError as error:
            found.append({"attention": attention, "failed": str(error).splitlines()[0]})
            continue
        found.append(
            {
                "batch": options.batch,
                "attention": attention,
                "ms": ms,
                "tokens_per_s": 1e3 * options.batch * options.seq / ms,
                "peak_bytes": torch.cuda.max_memory_allocated(),
            }
        )
        torch.cuda.empty_cache()
    timed = [each for each in found if "ms" in each]
    if not timed:
        sys.exit("torch_cuda_gpt2.py: error: " + "; ".join(f"{e['attention']}: {e['failed']}" for e in found))
    best = min(timed, key=lambda each: each["ms"])
    return {"torch": torch.__version__, "best": best, "all": found}


def find_largest(torch, options):
    """By two steps of each batch: the first makes the optimizer's state."""
    from optimus.bisection import largest

    # Compiled once for all batches.
    step = make_step(torch, options, dynamic=True)
    peaks = {}

    def fits(batch):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            for _ in range(2):
                step(batch)
            torch.cuda.synchronize()
        except torch.cuda.OutOfMemoryError:
            return False
        peaks[batch] = torch.cuda.max_memory_allocated()
        return True

    with attending("flash"):
        batch = largest(fits, options.batch)
    found = {"batch": batch, "peak_bytes": peaks.get(batch)}
    return {"torch": torch.__version__, "largest": found}


def main():
    options = parse()
    try:
        import torch
    except ImportError:
        print(json.dumps({"skipped": "this Python has no PyTorch"}))
        return
    if not torch.cuda.is_available():
        print(json.dumps({"skipped": f"PyTorch {torch.__version__} sees no GPU"}))
        return
    torch.set_float32_matmul_precision("high")
    found = find_largest if options.largest else measure
    print(json.dumps(found(torch, options)))


if __name__ == "__main__":
    main()
