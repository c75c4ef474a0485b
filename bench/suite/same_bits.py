# ===- same-bits - Two builds train the same bits --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles and trains GPT-2, BERT and Llama with two builds, side by side, and
compares every loss, norm, byte that was communicated and saved tensor, to the
bit. For changes that must change nothing: the other build is that of the commit
before. Exits with 1 where something differs.

    git worktree add ../before HEAD~1 && cmake --preset release -S ../before
    ninja -C ../before/build
    bench/run same-bits ../before
"""

import pathlib
import shutil

from harness import MPIRUN, SMALL_MODELS, Tools, layouts, write_license

TARGETS = ["optimus-compile", "optimus-run"]
STEPS = 6
SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (1, 4), (4, 1), (4, 4)]
SUMMA = ["--mesh", "row:2,col:2", "--strategy", "summa"]
LAYOUTS = [["--mesh", mesh, "--strategy", strategy] for mesh, strategy in layouts(SHAPES)]
LAYOUTS += [[*SUMMA, "--optimizer", optimizer] for optimizer in ("lamb", "sgd")]
LAYOUTS += [[*SUMMA, "--recompute", "layer"], [*SUMMA, "--accumulate"]]
# Over MPI as well.
MPI = [SUMMA, ["--mesh", "row:2,col:2", "--strategy", "megatron-sp"]]
# What of a line of the log must be the same.
KEYS = ("step", "loss", "grad_norm", "lr", "comm_bytes")


def options(parser):
    parser.add_argument("before", type=pathlib.Path, help="a built tree of the other commit")
    parser.add_argument("--only", default="", help="layouts whose flags contain this")


def train(tools, source, layout, ranks=0):
    """What a build makes of it: lines of the log, and the saved files."""
    folder = source.with_suffix("")
    folder.mkdir(exist_ok=True)
    library, saved = folder / "model.so", folder / "saved"
    shutil.rmtree(saved, ignore_errors=True)
    tools.compile(source, library, *layout)
    more = ["--microbatches", 2] if "--accumulate" in layout else []
    lines = tools.train(
        library, write_license(folder / "text.txt"), folder / "log.jsonl", "--steps", STEPS,
        "--lr", "3e-3", "--seed", 1, "--threads-per-rank", 1, "--save", saved, *more,
        launch=[*MPIRUN, "-n", ranks] if ranks else [])
    assert len(lines) == STEPS
    tensors = {file.name: file.read_bytes() for file in sorted(saved.iterdir())
               if file.suffix == ".safetensors"}
    return [[line[key] for key in KEYS] for line in lines], tensors


def main(options, tools, folder):
    before = options.before.resolve()
    trees = {"before": Tools(before / "build", before), "now": tools}
    runs = [(layout, 0) for layout in LAYOUTS] + [(layout, 4) for layout in MPI]
    compared, bad = 0, []
    for model, flags in SMALL_MODELS.items():
        # Each compiler knows the form that its own builder writes.
        sources = [(tree, tree.build_model(folder / f"{name}.mlir", *flags.split(), vocab=251))
                   for name, tree in trees.items()]
        for layout, ranks in runs:
            if options.only not in " ".join(layout):
                continue
            first, second = (train(*source, layout, ranks) for source in sources)
            name = " ".join([model, *layout, "mpi" if ranks else ""]).strip()
            compared += 1
            print(name, "same" if first == second else "DIFFERS", flush=True)
            if first != second:
                bad.append(f"{name} differs")
    return {"runs": f"{compared} runs, {len(bad)} differ"}, bad
