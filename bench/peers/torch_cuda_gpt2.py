#!/usr/bin/env python3
# ===- torch_cuda_gpt2.py - GPT-2 in PyTorch on a GPU, at its best ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps of the model of torch_gpt2.py on a GPU, in bf16 by autocast:
torch.compile, fused AdamW, TF32 where f32 is left, and each attention that PyTorch
has, of which the fastest counts. The last line of standard output is a JSON object:

    {"torch": "2.11.0", "best": {"batch": 16, "ms": 91.2, "attention": "cudnn", …}, "all": […]}

or {"skipped": "why"} where there is no PyTorch or no GPU for it.
"""

import argparse
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
    return parser.parse_args()


def timed_steps(torch, options, attention):
    """Milliseconds of each step with one kind of attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

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
    loss_of = torch.compile(model)
    shape = (options.batch, options.seq + 1)
    window = torch.randint(0, options.vocab, shape, device="cuda")
    tokens, targets = window[:, :-1].contiguous(), window[:, 1:].contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()

    milliseconds = []
    with sdpa_kernel(getattr(SDPBackend, ATTENTIONS[attention])):
        for number in range(options.warmup + options.steps):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            step()
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
        # What cuDNN does not take, and memory that does not suffice.
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
    print(json.dumps(measure(torch, options)))


if __name__ == "__main__":
    main()
