# ===- collectives_simulated - Simulated collectives beside measured ones ----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures collectives as a machine profile does, and simulates others by it: from 4 KiB
to 16 MiB, each size twice the one before, beside measurements of the same sitting.

    bench/run collectives-simulated               # as root; needs iproute2, OpenMPI
    bench/run collectives-simulated --only threads
    bench/run collectives-simulated --folder /tmp/collectives --only "16 hosts"
    bench/run collectives-simulated --folder /tmp/collectives --rounds 0 \
        --write bench/results/collectives.md

Threads and processes under MPI on this machine, and hosts that are network namespaces
with links of 1 and 4 Gbit/s. A profile has sizes from 64 bytes to 4 MiB, each four times
the one before: every second size of a table was never measured for it, and nothing
beyond 4 MiB. Of several rounds medians count. With --folder measurements stay, and the
next call adds its rounds to them. It fails where the median error is beyond --median.
"""

import json
import pathlib
import statistics

from harness import fail, machine, run, table
from measured import median_of, run_ranks

TARGETS = ["optimus-run", "optimus-simulate", "optimus_ccl_mpi"]
NUMBERS = dict(rounds=1, max_bytes=1 << 24, median=10.0)

CASES = {
    "threads, 4 ranks": ("local", 4),
    "threads, 16 ranks": ("local", 16),
    "MPI, 4 ranks": ("mpi", 4),
    "MPI, 16 ranks": ("mpi", 16),
    "4 hosts, 4 Gbit/s": ("hosts 4000", 4),
    "4 hosts, 1 Gbit/s": ("hosts 1000", 4),
    "16 hosts, 4 Gbit/s": ("hosts 4000", 16),
    "16 hosts, 1 Gbit/s": ("hosts 1000", 16),
}
LEAST = 4096
# Sizes of a profile, and others.
AGAIN, BETWEEN, BEYOND = KINDS = "measured again", "between those", "beyond them"


def options(parser):
    parser.add_argument("--only", default="", help="those with this in their names")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps measurements")


class Sitting:
    """By case and round what a profile has, and the seconds of a table."""

    def __init__(self, tools, folder, most):
        self.tools, self.folder, self.most = tools, folder, most
        self.path = folder / "measured.json"
        self.rounds = json.loads(self.path.read_text()) if self.path.exists() else {}

    def bench(self, case, least, most):
        backend, ranks = CASES[case]
        profile = self.folder / "sizes.json"
        profile.unlink(missing_ok=True)
        threads = ["--ranks", ranks] if backend == "local" else []
        run_ranks(backend, ranks, [
            self.tools.path("run"), "bench", "--comm", "--min-bytes", least, "--max-bytes",
            most, "--profile", profile, *threads])
        return json.loads(profile.read_text())["comm"]

    def add(self, case):
        profile = self.bench(case, 64, min(self.most, 1 << 22))
        times = {}
        for least in (LEAST, 2 * LEAST):
            for entry in self.bench(case, least, self.most):
                for point in entry["points"]:
                    times[f"{entry['collective']} {point['bytes']}"] = point["seconds"]
        self.rounds.setdefault(case, []).append([profile, times])
        self.path.write_text(json.dumps(self.rounds))

    def compare(self, case):
        """By collective, the kinds of all sizes and the errors in percent."""
        profile, times = median_of(self.rounds[case])
        known = {(entry["collective"], point["bytes"])
                 for entry in profile for point in entry["points"]}
        most = max(size for _, size in known)
        path = self.folder / "profile.json"
        path.write_text(json.dumps({"version": 1, "comm": profile}))
        errors = {}
        for name, seconds in times.items():
            collective, size = name.split()
            found = json.loads(run([
                self.tools.path("simulate"), "--collective", collective, "--ranks",
                CASES[case][1], "--bytes", size, "--machine-profile", path, "--json", "-"]))
            error = 100 * (found["times"][0]["us"] * 1e-6 / seconds - 1)
            kind = (AGAIN if (collective, int(size)) in known
                    else BEYOND if int(size) > most else BETWEEN)
            errors.setdefault(collective, []).append((kind, error))
        return errors


def summarize(errors):
    sizes = [abs(error) for _, error in errors]
    return [len(sizes), f"{statistics.median(sizes):.1f} %", f"{max(sizes):.1f} %"]


def describe_kinds(errors):
    for kind in KINDS:
        if of_kind := [one for one in errors if one[0] == kind]:
            yield f"sizes {kind} {summarize(of_kind)[1]}"


def main(options, tools, folder):
    chosen = [case for case in CASES if options.only in case]
    if not chosen:
        fail(f"no case's name contains {options.only!r}")
    sitting = Sitting(tools, folder, options.max_bytes)
    for _ in range(options.rounds):
        for case in chosen:
            sitting.add(case)
    rows, everything = [], []
    for case in sitting.rounds:
        errors = sitting.compare(case)
        for collective, list_ in errors.items():
            rows.append([case, collective, *summarize(list_)])
            everything += list_
    median = statistics.median(abs(error) for _, error in everything)
    count = min(len(rounds) for rounds in sitting.rounds.values())
    text = (f"{machine()}; {count} {'round' if count == 1 else 'rounds'}; median error of "
            f"all {len(everything)} points {median:.1f} %; of "
            f"{', '.join(describe_kinds(everything))}\n\n"
            + table(["on", "collective", "sizes", "median error", "largest"], rows))
    return {"collectives-simulated": text}, [] if median <= options.median else [
        f"expected a median error of at most {options.median:g} %, found {median:.1f} %"]
