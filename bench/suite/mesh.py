# ===- mesh - A 2D-partitioned training step beside its peers -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times a GPT training step on a 2x2 mesh of ranks beside our own serial step
and beside what PyTorch (DTensor) and JAX (NamedSharding) make of the same work
on as many ranks: the same model from the same weights on the same data, f32.

    bench/run mesh                                # with peers; installs them first
    bench/run mesh --peers none                   # ours alone
    bench/run mesh --write bench/results/mesh.md  # renews the page's table

A round is one step of each, one after the other in one sitting; ratios are
taken in each round, and their median counts. All of them must print the same
loss in every round, within --tolerance. It builds what it needs in the build
tree (`cmake --preset release` first).
"""

import json
import os
import pathlib
import random

from harness import ROOT, Served, fail, machine, one_of, peer_python, serve_steps, spread
from harness import table

TARGETS = ["optimus-compile", "optimus-run", "optimus-bench-step"]
SIZES = dict(layers=6, hidden=384, heads=8, seq=256, batch=8, vocab=256)
NUMBERS = dict(SIZES, rounds=12, warmup=2, rows=2, cols=2, strategy="summa", lr=3e-4)
PEERS = ["jax", "dtensor", "dtensor-compiled", "dtensor-2"]


def options(parser):
    parser.add_argument("--peers", default="jax,dtensor,dtensor-compiled",
                        type=one_of(PEERS),
                        help=f"of {', '.join(PEERS)}, with commas between; or none")
    parser.add_argument("--python", help="one with the peers' packages (default: "
                        "that of bench/peers/setup)")
    parser.add_argument(
        "--tolerance", type=float, default=1e-4,
        help="largest relative distance of two losses; default: %(default)s",
    )
    parser.add_argument("--json", help="write every round to this file")


def write_words(options, path):
    """Words with some structure to learn, enough for every round."""
    draw = random.Random(3)
    words = [
        bytes(draw.randrange(options.vocab) for _ in range(draw.randrange(2, 8)))
        for _ in range(60)
    ]
    steps = options.warmup + options.rounds
    size, text = steps * options.batch * options.seq + 1, bytearray()
    while len(text) < size:
        text += words[int(60 * draw.random() ** 2)]
    path.write_bytes(text[:size])


def prepare(options, tools, folder):
    """The data, the initial weights and the libraries, serial and on the mesh."""
    source, data = folder / "gpt.mlir", folder / "text.txt"
    tools.build_model(source, **{name: getattr(options, name) for name in SIZES})
    write_words(options, data)
    serial, meshed = folder / "serial.so", folder / "mesh.so"
    tools.compile(source, serial, "--strategy=serial")
    tools.compile(source, meshed, f"--mesh=row:{options.rows},col:{options.cols}",
                  f"--strategy={options.strategy}")
    weights = folder / "weights"
    tools.train(serial, data, folder / "log", "--steps", 0, "--seed", 1, "--save", weights)
    return data, weights, serial, meshed


def start(options, tools, folder):
    """The programs under their names, ours first."""
    data, weights, serial, meshed = prepare(options, tools, folder)
    cores, ranks = os.cpu_count(), options.rows * options.cols
    common = ["--load", weights, "--data", data, "--lr", options.lr]
    programs = {
        name: serve_steps(tools, library, "--threads-per-rank", threads, *common)
        for name, library, threads in [("mesh", meshed, max(1, cores // ranks)),
                                       ("serial", serial, cores)]
    }
    if options.peers:
        python = peer_python(options.python)
    common += ["--heads", options.heads, "--batch", options.batch]
    for peer in options.peers:
        if peer == "jax":
            flags = ["jax_gpt2.py", "--rows", options.rows, "--cols", options.cols]
        else:
            flags = ["dtensor_gpt2.py", "--ranks", 2 if peer == "dtensor-2" else ranks]
            flags += ["--compile"] if peer == "dtensor-compiled" else []
        program, *flags = flags
        command = [python, ROOT / "bench/peers" / program, *flags, *common]
        programs[peer] = Served(command)
    return programs


def check_losses(options, number, entries):
    losses = {name: entry["loss"] for name, entry in entries.items()}
    least, most = min(losses.values()), max(losses.values())
    if not most - least <= options.tolerance * least:
        fail(f"expected one loss within {options.tolerance:g} of it in step {number}, "
             f"found {losses}")
    return (most - least) / least


def describe(options, name, program):
    if name == "mesh":
        return (f"Optimus, {options.strategy} on {options.rows}×{options.cols}, "
                f"{program.about['ranks']} ranks of {program.about['threads']} thread")
    if name == "serial":
        return f"Optimus, serial, {program.about['threads']} threads"
    return f"{program.about['peer']}, {program.about['how']}"


def describe_all(options, programs, rounds, distance):
    base = [entries["mesh"]["ms"] for entries in rounds]
    rows = []
    for name, program in programs.items():
        times = [entries[name]["ms"] for entries in rounds]
        ratio = spread([t / b for t, b in zip(times, base)], 2)
        rows.append([describe(options, name, program), spread(times, 0),
                     "" if name == "mesh" else ratio])
    first, last = rounds[0]["mesh"]["loss"], rounds[-1]["mesh"]["loss"]
    return "\n".join([
        f"{machine()}, {os.getloadavg()[2]:.1f} over 15 minutes.",
        f"{options.layers} layers, hidden {options.hidden}, {options.heads} heads, "
        f"sequence {options.seq}, batch {options.batch}, vocabulary {options.vocab}, "
        f"f32; {len(rounds)} rounds, median (least to most).",
        "",
        table(["", "step, ms", "takes, times ours on the mesh"], rows),
        "",
        f"Loss of all: from {first:.4f} in step {options.warmup + 1} to {last:.4f} in step "
        f"{options.warmup + options.rounds}, at most {distance:.1e} apart (relative).",
    ])


def main(options, tools, folder):
    if not 2 <= options.vocab <= 256:
        fail("--vocab: expected 2 to 256, since data is one token a byte")
    rounds, distance = [], 0
    programs = start(options, tools, folder)
    for number in range(1, options.warmup + options.rounds + 1):
        entries = {name: program.round() for name, program in programs.items()}
        distance = max(distance, check_losses(options, number, entries))
        if number <= options.warmup:
            continue
        rounds.append(entries)
        print(f"round {number - options.warmup}: " + ", ".join(
            f"{name} {entry['ms']:.0f} ms" for name, entry in entries.items()
        ), flush=True)
    for program in programs.values():
        program.close()
    if options.json:
        lines = [json.dumps({name: {"ms": entry["ms"], "loss": entry["loss"]}
                             for name, entry in entries.items()}) for entries in rounds]
        pathlib.Path(options.json).write_text("\n".join(lines) + "\n")
    return {"mesh": describe_all(options, programs, rounds, distance)}
