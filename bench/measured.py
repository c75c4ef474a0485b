# ===- measured.py - What predictions are made from and held against -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Rounds: in each this machine is measured, and then steps of programs. A moment in
which it is slow counts for both."""

import copy
import json
import os
import shutil
import statistics
import sys

from harness import MPIRUN, ROOT, fail, machine, run
from namespaces import Cluster
from ranks import start_ranks


def first(command):
    """With precedence, where one may have it."""
    allowed = os.geteuid() == 0 and shutil.which("chrt")
    return ["chrt", "-f", "20", *command] if allowed else list(command)


def rate_of_hosts(backend):
    """Bits a second of a link of the shaped hosts `hosts 1000`; None of others."""
    name, _, rate = backend.partition(" ")
    return float(rate) * 1e6 if name == "hosts" else None


def run_ranks(backend, ranks, command):
    """A command with precedence: of threads `local`, or one for each rank, over
    `mpi` or `tcp`; or over MPI on a host each, whose links have 1000 Mbit/s on
    `hosts 1000`. Hosts wait for each other on shared cores, without precedence."""
    if rate_of_hosts(backend):
        with Cluster(ranks) as cluster:
            cluster.shape(rate_of_hosts(backend))
            cluster.mpirun(command)
    elif backend == "local":
        run(first(command))
    elif backend == "mpi":
        run(first([*MPIRUN, "-n", ranks, *command]))
    else:
        processes = start_ranks(ranks, first(command))
        if any([process.wait() for process in processes]):
            fail(f"one of {ranks} ranks failed: {' '.join(map(str, command))}")


def measure_machine(tools, folder, jobs):
    """A machine profile: ranks with one thread and two, alone and together; then
    collectives of each (back-end, number of ranks)."""
    profile = folder / "machine.json"
    profile.unlink(missing_ok=True)
    bench = [tools.path("run"), "bench", "--profile", profile]
    for flags in ([], ["--threads-per-rank", 2], ["--ranks", 2]):
        run(first([*bench, "--gemm", "--rounds", 1, *flags]))
    hosts = []
    for backend, ranks in sorted(jobs):
        if ranks > 1:
            threads = ["--ranks", ranks] if backend == "local" else []
            comm = ["--comm", "--max-bytes", 1 << 22, *threads]
            if not rate_of_hosts(backend):
                run_ranks(backend, ranks, [*bench, *comm])
                continue
            # Other entries of MPI are of one host.
            own = folder / "hosts.json"
            own.unlink(missing_ok=True)
            run_ranks(backend, ranks, [*bench[:-1], own, *comm])
            hosts += [{**entry, "backend": backend}
                      for entry in json.loads(own.read_text())["comm"]]
    found = json.loads(profile.read_text())
    found["comm"] = found.get("comm", []) + hosts
    return found


def median_of(values):
    """Of structures that are alike, each number's median."""
    head = values[0]
    if isinstance(head, dict):
        return {key: median_of([value[key] for value in values]) for key in head}
    if isinstance(head, list):
        return [median_of(list(items)) for items in zip(*values)]
    if isinstance(head, float):
        return statistics.median(values)
    return copy.copy(head)


def reference():
    """Seconds of the ledger's job: how fast this machine is just now."""
    return float(run([sys.executable, ROOT / "scripts/ledger.py", "reference"]))


class Rounds:
    """Profiles of the machine and what was measured of programs, by name. They are
    kept in the folder, and the next call with it adds its own, of other programs and
    back-ends, too."""

    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder
        self.path = folder / "measured.json"
        self.machines, self.programs, self.references = [], {}, []
        if self.path.exists():
            self.machines, self.programs, self.references = json.loads(
                self.path.read_text())

    def add(self, jobs, programs):
        """A round: `programs` has by name what measures one."""
        before = reference()
        self.machines.append(measure_machine(self.tools, self.folder, jobs))
        for name, measure in programs.items():
            self.programs.setdefault(name, []).append(measure())
        self.references += [before, reference()]
        self.path.write_text(
            json.dumps([self.machines, self.programs, self.references]))

    def profile(self, path, threads, backend="local"):
        """Writes what was measured of ranks with so many threads on a back-end, and
        with fewer. Without the others: the compiler takes the most threads for the
        ranks' cores."""
        found = median_of([{**one, "comm": []} for one in self.machines])
        found["gemm"] = [one for one in found["gemm"] if one["threads"] <= threads]
        collectives = {}
        for one in self.machines:
            for entry in one.get("comm", []):
                if entry["backend"] == backend:
                    key = entry["ranks"], entry["collective"]
                    collectives.setdefault(key, []).append(entry)
        found["comm"] = [median_of(each) for each in collectives.values()]
        path.write_text(json.dumps(found))
        return path

    def describe(self):
        return (f"{machine()}; {len(self.machines)} rounds, the ledger's reference job "
                f"{min(self.references):.2f} to {max(self.references):.2f} s")
