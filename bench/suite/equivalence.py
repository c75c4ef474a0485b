# ===- equivalence - Every layout against the serial program ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains GPT-2, BERT and Llama on every mesh and strategy, as compiled, beside
the serial program: losses and clipped norms of 20 steps, and every gradient of
the first by `optimus-run verify`. Exits with 1 where one differs.

    bench/run equivalence [--write docs/equivalence.md]
"""

import sys

from harness import SMALL_MODELS, layouts, run, table, write_license

TARGETS = ["optimus-compile", "optimus-run"]
STEPS = 20
# One f32 sum in another order is off by some 1e-7 and AdamW's division by the
# root of the second moment turns noise of near-zero gradients into changes of
# up to a learning rate.
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-4, 1e-2

MODELS = {name: f"{flags} --vocab 50257" for name, flags in SMALL_MODELS.items()}
LAYOUTS = layouts([(1, 1), (2, 2), (2, 3), (3, 2), (1, 4), (4, 1), (4, 4)])


def train(tools, library, data):
    lines = tools.train(library, data, data.with_suffix(".log"), "--steps", STEPS,
                        "--lr", "3e-3", "--seed", 1, "--threads-per-rank", 1)
    assert len(lines) == STEPS
    return [line["loss"] for line in lines], [line["grad_norm"] for line in lines]


def deviation(found, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


def compare(tools, source, serial, expected, layout, data):
    """The table's cell, and whether all is within tolerance."""
    mesh, strategy = layout
    library = source.with_suffix(".so")
    compiled = tools.compile(source, library, "--mesh", mesh, "--strategy", strategy,
                             check=False)
    if compiled.returncode != 0:
        reason = compiled.stderr.split("error: ", 1)[-1].splitlines()[0]
        return "refused: " + reason, False
    losses, norms = train(tools, library, data)
    loss = deviation(losses, expected[0])
    norm = deviation(norms, expected[1])
    verified = run([tools.path("run"), "verify", serial, library, "--data", data,
                    "--threads-per-rank", 1], check=False)
    same = verified.returncode == 0
    good = same and loss < LOSS_TOLERANCE and norm < NORM_TOLERANCE
    cell = "%.0e, %.0e, %s" % (loss, norm, "all" if same else "NOT ALL")
    return cell, good


def main(options, tools, folder):
    rows = {layout: [] for layout in LAYOUTS}
    bad = []
    data = write_license(folder / "text.txt")
    for model, flags in MODELS.items():
        source = tools.build_model(folder / "model.mlir", *flags.split())
        serial = folder / "serial.so"
        tools.compile(source, serial)
        expected = train(tools, serial, data)
        for layout in LAYOUTS:
            cell, good = compare(tools, source, serial, expected, layout, data)
            rows[layout].append(cell)
            if not good:
                bad.append(" ".join(["differs:", model, *layout, cell]))
            print(model, *layout, cell, file=sys.stderr, flush=True)
    cells = [[*layout, *found] for layout, found in rows.items()]
    return {"table": table(["mesh", "strategy", *MODELS], cells)}, bad
