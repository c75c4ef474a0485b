# ===- calls - What lies between two calls of a rank ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Steps of many microbatches on processes that meet over TCP: the processor's time of a
rank from the last command of a call to the first of its next one, with the inputs,
resets and the end of a call in between; and the processor's time in which a rank
opens and checks the library:

    bench/run calls
    bench/run calls --ranks 16 --microbatches 49

The mean of each rank over a step counts, and of these the median of the ranks and
the largest; it fails where the median is above --limit, or a rank's opening above
--open-limit. A step's time is rank 0's.
In Markdown.
"""

import json
import os
import statistics
import subprocess

from harness import fail, table
from ranks import start_ranks
from suite.launch import mesh_of

TARGETS = ["optimus-compile", "optimus-bench-calls"]
NUMBERS = dict(ranks=64, microbatches=199, steps=3)


def options(parser):
    parser.add_argument("--limit", type=float, default=20,
                        help="µs between two calls; default: %(default)s")
    parser.add_argument("--open-limit", type=float, default=1,
                        help="seconds to open and check the library; default: %(default)s")


def main(options, tools, folder):
    rows, columns = mesh_of(options.ranks).split("x")
    mesh = f"row:{rows},col:{columns}"
    sizes = dict(layers=1, hidden=8 * int(columns), heads=columns, seq=8, vocab=64, batch=rows)
    model, library = folder / "model.mlir", folder / "model.so"
    tools.build_model(model, **sizes)
    tools.compile(model, library, "--mesh", mesh, "--accumulate")
    command = [tools.path("bench-calls"), library, "--backend", "tcp",
               "--microbatches", options.microbatches, "--steps", options.steps]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    jobs = start_ranks(options.ranks, command, **streams, text=True)
    printed = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        fail("a rank failed")
    lines = [json.loads(line) for text in printed for line in text.splitlines()]
    found, slow = [], []
    opening = [line["open_s"] for line in lines if "open_s" in line]
    if max(opening) > options.open_limit:
        slow.append(f"{max(opening):.2f} s to open the library; "
                    f"expected at most {options.open_limit:g}")
    for step in range(1, options.steps + 1):
        of_step = [line for line in lines if line.get("step") == step]
        gaps = [line["gap_us"] for line in of_step]
        median = statistics.median(gaps)
        (seconds,) = (line["step_s"] for line in of_step if line["rank"] == 0)
        found.append([step, of_step[0]["gaps"], f"{median:.1f}", f"{max(gaps):.1f}",
                      f"{1e3 * seconds:.0f}"])
        if median > options.limit:
            slow.append(f"step {step}: {median:.1f} µs between two calls of a rank; "
                        f"expected at most {options.limit:g}")
    header = ["step", "gaps", "µs, median of the ranks", "µs, largest", "ms of the step"]
    return {"calls": f"{options.ranks} ranks on {os.cpu_count()} cores, load "
            f"{os.getloadavg()[0]:.1f}. A rank opens and checks the library in "
            f"{1e3 * statistics.median(opening):.0f} ms of a processor, at most "
            f"{1e3 * max(opening):.0f}.\n\n{table(header, found)}"}, slow
