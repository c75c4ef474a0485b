# ===- launch - What it takes ranks to meet -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times jobs whose ranks meet, connect, watch each other and end, beside a program with
only MPI_Init and MPI_Finalize:

    bench/run launch
    bench/run launch --ranks 16 --rounds 5

`mpi` and `tcp` are started by mpirun, `by hand` by this program, with --rank and
--rendezvous. Jobs take turns; the median of --rounds counts, and a job that
takes --limit seconds more than the bare program fails. In Markdown.
"""

import json
import os
import statistics
import subprocess
import time

from harness import MPIRUN, fail, needs, run, table, take_turns
from ranks import start_ranks

TARGETS = ["optimus-bench-launch"]
NUMBERS = dict(ranks=64, rounds=3)
PARTS = ("join_s", "lay_out_s", "watch_s")
BARE = """#include <mpi.h>
int main(int argc, char **argv) {
  return MPI_Init(&argc, &argv) || MPI_Barrier(MPI_COMM_WORLD) || MPI_Finalize();
}
"""


def options(parser):
    parser.add_argument("--limit", type=float, default=5,
                        help="seconds; default: %(default)s")


def mesh_of(ranks):
    rows = max(rows for rows in range(1, ranks + 1) if ranks % rows == 0 and rows**2 <= ranks)
    return f"{rows}x{ranks // rows}"


def under_mpirun(ranks, *command):
    """The seconds from a job's start to its end, and what it prints."""
    begin = time.monotonic()
    printed = run([*MPIRUN, "-n", ranks, *command], stdin=subprocess.DEVNULL)
    return time.monotonic() - begin, printed


def by_hand(ranks, *command):
    begin = time.monotonic()
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    jobs = start_ranks(ranks, command, **streams, text=True)
    printed = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        fail("a rank failed")
    return time.monotonic() - begin, printed[0]


def main(options, tools, folder):
    needs("mpirun", "mpicc")
    bare = folder / "bare"
    bare.with_suffix(".c").write_text(BARE)
    run(["mpicc", bare.with_suffix(".c"), "-o", bare])
    ranks = options.ranks

    def ours(start, backend):
        return lambda: start(ranks, tools.path("bench-launch"), "--backend", backend,
                             "--mesh", mesh_of(ranks))

    jobs = {
        "bare MPI_Init": lambda: under_mpirun(ranks, bare),
        "mpi": ours(under_mpirun, "mpi"),
        "tcp": ours(under_mpirun, "tcp"),
        "tcp, by hand": ours(by_hand, "tcp"),
    }
    rounds = [entries for _, entries in take_turns(jobs, options.rounds)]
    medians = {name: statistics.median(entry[name][0] for entry in rounds) for name in jobs}
    least = medians["bare MPI_Init"]
    rows, slow = [], []
    for name, median in medians.items():
        said = [json.loads(entry[name][1]) for entry in rounds if entry[name][1]]
        rows.append([name, f"{median:.2f}", f"{median - least:+.2f}", *(
            f"{statistics.median(line[part] for line in said):.2f}" if said else "–"
            for part in PARTS)])
        if median - least > options.limit:
            slow.append(f"{name}: more than {options.limit} s beyond a bare MPI_Init")
    header = ["job", "s", "beyond a bare MPI_Init", "rank 0 joins", "lays out", "watches"]
    return {"launch": f"{ranks} ranks on {os.cpu_count()} cores, median of "
            f"{options.rounds}, load {os.getloadavg()[0]:.1f}.\n\n{table(header, rows)}"}, slow
