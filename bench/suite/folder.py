# ===- folder - A rank's memory beside a folder of weights ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A GPT-2 of 1.56 billion parameters takes its weights from a folder in bf16, a sparse
file that is in memory, on four processes of a 2×2 mesh under mpirun:

    bench/run folder                       # 11 GB of memory
    bench/run folder --layers 8 --write bench/results/reshard.md

Says what each process has at its peak beside its shards and its arena, and the rates of
three things, all processes side by side: reading the file and nothing more, widening
bf16 that is there, and loading. Fails where a process has more than 64 MB beside, or
where widening is slower than reading: the best round of each counts.
"""

import json
import math

from harness import MPIRUN, machine, run, table

TARGETS = ["optimus-compile", "optimus-run", "optimus-bench-reshard"]
NUMBERS = dict(layers=48, hidden=1600, heads=25, rounds=3)
SIZES = dict(seq=64, batch=2, vocab=50257, functions="forward")
MESH = ["--mesh=row:2,col:2", "--strategy=summa"]
RANKS = 4
MOST_BESIDE = 64e6


def write_weights(path, tensors):
    """Zeros in bf16; returns their bytes."""
    header, at = {}, 0
    for tensor in tensors:
        end = at + 2 * math.prod(tensor["shape"])
        header[tensor["name"]] = {"dtype": "BF16", "shape": tensor["shape"],
                                  "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(file.tell() + at)
    return at


def main(options, tools, folder):
    source = tools.build_model(folder / "gpt.mlir", layers=options.layers,
                               hidden=options.hidden, heads=options.heads, **SIZES)
    library, weights = folder / "gpt.so", folder / "weights"
    tools.compile(source, library, *MESH)
    weights.mkdir()
    saved = [buffer["saved"] for buffer in tools.inspect(library)["buffers"]
             if buffer["role"] == "parameter"]
    size = write_weights(weights / "model.safetensors", saved)
    command = [*MPIRUN, "--bind-to", "none", "-n", RANKS, tools.path("bench-reshard"),
               library, "--load", weights, "--read"]
    reports = [json.loads(run(command)) for _ in range(options.rounds)]

    def beside(report):
        held = report["parameters"] + report["state"] + report["arena"]
        return [process["load"]["peak"] - held for process in report["processes"]]

    def rate(phase):
        """Of stored bytes, in GB a second."""
        seconds = [max(process[phase]["seconds"] for process in report["processes"])
                   for report in reports]
        return size / min(seconds) / 1e9

    rates = {phase: rate(phase) for phase in ("read", "widen", "load")}
    most = max(max(beside(report)) for report in reports)
    report = min(reports, key=lambda report: max(beside(report)))
    root, *others = beside(report)
    files = [process["load"]["after"]["RssFile"] for process in report["processes"]]
    rows = [
        ["parameters, in bf16 in the file", f"{size / 1e6:.1f} MB"],
        ["a rank's shards, in f32", f"{report['parameters'] / 1e6:.1f} MB"],
        ["its arena", f"{report['arena'] / 1e6:.1f} MB"],
        ["beside both at the peak, rank 0", f"{root / 1e6:.1f} MB"],
        ["the same, the others", f"{min(others) / 1e6:.1f} to {max(others) / 1e6:.1f} MB"],
        ["of it the program and its libraries", f"{max(files) / 1e6:.1f} MB"],
        ["reading alone", f"{rates['read']:.2f} GB/s"],
        ["widening alone", f"{rates['widen']:.2f} GB/s"],
        ["loading", f"{rates['load']:.2f} GB/s"],
    ]
    mistakes = []
    if most > MOST_BESIDE:
        mistakes.append(f"a process has {most / 1e6:.1f} MB beside its shards and arena")
    if rates["widen"] < rates["read"]:
        mistakes.append("widening is slower than reading")
    about = (f"GPT-2, {options.layers} layers, hidden {options.hidden}, 2×2, the best of "
             f"{options.rounds} rounds; {machine()}.")
    return {"folder": f"{about}\n\n{table(['what', 'found'], rows)}"}, mistakes
