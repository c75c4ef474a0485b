# ===- first_token - The time from a program's start to its first token -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Starts `optimus-run generate` of GPT-2 124M for one new token behind a short prompt,
with weights drawn into a folder in f32 and in bf16, by libraries in f32, bf16, int8 and
int4. In turn with it the folder's file is read, from the system's cache, by one thread.

    bench/run first-token
    bench/run first-token --write docs/inference.md

Prints the median of the rounds, and that as times of the reading. In Markdown.
"""

import json
import statistics
import subprocess
import time

from harness import table
from peers.llama_rates import CONTEXT, gpt2, write_folder

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(rounds=5, prompt=3)
LIBRARIES = {"f32": [], "bf16": ["--precision", "bf16"], "int8": ["--weights", "int8"],
             "int4": ["--weights", "int4"]}


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read(path):
    memory = memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        while file.readinto(memory):
            pass


def main(options, tools, folder):
    shape, config, tensors = gpt2()
    builder = [*shape.split(), "--seq", CONTEXT, "--batch", 1,
               "--generate", f"slots=1,context={CONTEXT},chunk=512"]
    program = tools.build_model(folder / "gpt2.mlir", *builder)
    for name, flags in LIBRARIES.items():
        tools.compile(program, folder / f"{name}.so", *flags)
    prompts = folder / "prompts.jsonl"
    prompts.write_text(json.dumps(list(range(100, 100 + options.prompt))) + "\n")
    rows = []
    for kind in ["f32", "bf16"]:
        weights = folder / kind
        write_folder(weights, config, tensors, kind == "f32")
        times = {name: [] for name in ["read", *LIBRARIES]}
        # The first round fills the cache.
        for _ in range(options.rounds + 1):
            times["read"].append(seconds(lambda: read(weights / "model.safetensors")))
            for name in LIBRARIES:
                command = [tools.path("run"), "generate", folder / f"{name}.so", "--load",
                           weights, "--tokens", prompts, "--max-tokens", 1]
                times[name].append(seconds(lambda: subprocess.run(
                    list(map(str, command)), check=True, stdout=subprocess.DEVNULL)))
        found = {name: statistics.median(list_[1:]) for name, list_ in times.items()}
        for name in LIBRARIES:
            rows.append([kind, name, f"{found[name]:.2f}", f"{found['read']:.3f}",
                         f"{found[name] / found['read']:.1f}"])
    header = ["weights in", "library", "seconds", "reading the file", "times"]
    return {"first-token": table(header, rows)}
