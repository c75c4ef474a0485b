# ===- faults - Ranks that die or stop in random places -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Kills or stops one of four ranks, each a process, that train a small GPT-2,
again and again, each time another rank at another moment:

    bench/run faults
    bench/run faults --rounds 10 --seed 7 --timeout 2
    bench/run faults --backend tcp     # ranks started by this program alone
    bench/run faults --ranks 64 --rounds 4 --patience 2
    bench/run faults --patience 4      # on a busy machine

Each time the message must name the rank, every other rank must exit with 1,
and the job must be over within the timeout and --slack seconds. Then two ranks,
with a library compiled for two, go on from the last checkpoint. Prints a line a
round and exits with 1 when one went wrong.
"""

import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import ranks
from harness import MPIRUN, needs, run
from ranks import wait_for

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(rounds=50, seed=0, timeout=3.0, slack=10.0)
MODEL = dict(layers=2, hidden=32, heads=4, seq=32, batch=8, vocab=256)
# Of ranks: small enough that one machine holds them all.
MESHES = {2: "row:1,col:2", 4: "row:2,col:2", 16: "row:4,col:4", 64: "row:8,col:8"}


def options(parser):
    parser.add_argument(
        "--patience", type=float, default=0, help="give the ranks, and the end of "
        "the job, at least this many times what a job without a fault takes now; "
        "default: %(default)s"
    )
    parser.add_argument(
        "--ranks", type=int, default=4, choices=[4, 16, 64], help="default: %(default)s"
    )
    parser.add_argument(
        "--backend", default="mpi", choices=["mpi", "tcp"], help="mpi: started by "
        "mpirun; tcp: by this program; default: %(default)s"
    )
    parser.add_argument(
        "--mpirun", default="", help="more of its options, as --enable-recovery"
    )


def prepare(tools, folder, ranks):
    """A text and one library for each number of ranks."""
    model = tools.build_model(folder / "gpt.mlir", **MODEL)
    for name, mesh in [("gpt", MESHES[ranks]), ("two", MESHES[2])]:
        tools.compile(model, folder / f"{name}.so", "--mesh", mesh, "--strategy", "summa")
    text = "the quick brown fox jumps over the lazy dog; "
    (folder / "text.txt").write_text(text * 200)


def start(options, command):
    """The command line that starts a command as all ranks."""
    if options.backend == "tcp":
        line = [sys.executable, ranks.__file__, "--start-ranks", options.ranks]
    else:
        line = [*MPIRUN, *options.mpirun.split(), "-n", options.ranks]
    return [str(part) for part in [*line, *command]]


def be_patient(options, tools, folder):
    """Takes the pace of this moment from the slower of two jobs of one step: a
    machine that starts one slowly also runs ranks late, and they would be taken
    for stopped."""
    train = [tools.path("run"), "train", folder / "gpt.so"]
    train += ["--data", folder / "text.txt", "--steps", "1"]
    train += ["--threads-per-rank", "1", "--timeout", "0"]
    times = []
    for _ in range(2):
        begin = time.monotonic()
        run(start(options, train))
        times.append(time.monotonic() - begin)
    least = options.patience * max(times)
    options.timeout = max(options.timeout, round(least, 1))
    options.slack = max(options.slack, least)
    print(f"a job of one step takes {max(times):.1f} s: the ranks' timeout is "
          f"{options.timeout:.1f} s, slack {options.slack:.1f} s", flush=True)


class Round:
    """One job and its fault."""

    def __init__(self, options, tools, folder, choose):
        self.options, self.program, self.folder = options, tools.path("run"), folder
        self.victim = choose.randrange(options.ranks)
        self.signal = choose.choice([signal.SIGKILL, signal.SIGSTOP])
        self.delay = choose.uniform(0, 3)
        self.problems = []

    def run(self):
        train = [self.program, "train", self.folder / "gpt.so"]
        train += ["--data", self.folder / "text.txt", "--steps", "1000000"]
        train += ["--threads-per-rank", "1", "--save", self.folder / "saved"]
        train += ["--save-every", "2", "--log-json", self.folder / "log"]
        train += ["--timeout", str(self.options.timeout)]
        wrapper = [sys.executable, ranks.__file__, "--rank-in", self.folder]
        job = subprocess.Popen(
            start(self.options, [*wrapper, *train]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log = self.folder / "log"
        bound = self.options.timeout + self.options.slack

        def has_begun():
            return log.exists() and log.stat().st_size

        wait_for(lambda: has_begun() or job.poll() is not None, 60 + 10 * bound)
        if not has_begun():
            self.problems.append("the job did not start")
        else:
            # Any moment: of a step, between two, while a checkpoint is written.
            time.sleep(self.delay)
            pid = int((self.folder / f"pid.{self.victim}").read_text())
            os.kill(pid, self.signal)
        begin = time.monotonic()
        try:
            self.output, _ = job.communicate(timeout=bound + 60)
        except subprocess.TimeoutExpired:
            job.kill()
            self.output, _ = job.communicate()
        self.seconds = time.monotonic() - begin
        self.code = job.returncode
        if self.seconds > bound:
            self.problems.append(f"over after {self.seconds:.1f} s only")
        self.check()
        self.resume()

    def check(self):
        said = re.search(r"error: (rank (\d+) .*)", self.output)
        self.message = said.group(1).strip() if said else ""
        if not said or int(said.group(2)) != self.victim:
            self.problems.append(f"not named: {self.output[-400:]!r}")
        if self.output.count("optimus-run: error:") > 1:
            self.problems.append("said more than once")
        survivors = sorted(set(range(self.options.ranks)) - {self.victim})
        paths = [self.folder / f"status.{rank}" for rank in survivors]
        # mpirun may be over before the last is written down.
        wait_for(lambda: all(path.exists() and path.read_text() for path in paths), 10)
        for rank, path in zip(survivors, paths):
            found = path.read_text() if path.exists() else "none"
            if found != "1":
                self.problems.append(f"status of rank {rank}: {found}")

    def resume(self):
        self.resumed = 0
        if not (self.folder / "saved").exists():
            return
        command = [self.program, "train", self.folder / "two.so"]
        command += ["--data", self.folder / "text.txt", "--load"]
        command += [self.folder / "saved", "--threads-per-rank", "1", "--steps"]
        result = run([*command, 1], check=False)
        step = re.search(r"going on after step (\d+)", result.stdout)
        if result.returncode != 0 or not step:
            self.problems.append(f"cannot go on: {result.stderr!r}")
            return
        self.resumed = int(step.group(1))
        result = run([*command, self.resumed + 2], check=False)
        if result.returncode != 0 or "final loss" not in result.stdout:
            self.problems.append(f"cannot go on: {result.stderr!r}")


def main(options, tools, folder):
    if options.backend == "mpi":
        needs("mpirun")
    choose = random.Random(options.seed)
    bad, seconds, codes, resumed = 0, {}, {}, 0
    prepare(tools, folder, options.ranks)
    if options.patience > 0:
        be_patient(options, tools, folder)
    libraries = [*folder.glob("*.so"), folder / "text.txt"]
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=folder) as inner:
            own = pathlib.Path(inner)
            for library in libraries:
                (own / library.name).symlink_to(library)
            one = Round(options, tools, own, choose)
            one.run()
            kind = one.signal.name
            print(
                f"{number + 1:3} {kind} rank {one.victim} after "
                f"{one.delay:.2f} s: {one.seconds:.2f} s, status {one.code}, "
                f"resumed after step {one.resumed}: {one.message}",
                flush=True,
            )
            for problem in one.problems:
                print("    WRONG:", problem, flush=True)
            if one.problems:
                print("    the job said:", one.output[-2000:], flush=True)
            bad += bool(one.problems)
            seconds.setdefault(kind, []).append(one.seconds)
            codes.setdefault(kind, set()).add(one.code)
            resumed += one.resumed > 0
    print()
    for kind in sorted(seconds):
        times = seconds[kind]
        print(
            f"{kind}: {len(times)} rounds, over after {min(times):.2f} to "
            f"{max(times):.2f} s (median {statistics.median(times):.2f}), "
            f"status of the job {', '.join(map(str, sorted(codes[kind])))}"
        )
    print(
        f"{options.rounds - bad} of {options.rounds} rounds as they must be; "
        f"{resumed} resumed on two ranks from a checkpoint"
    )
    return None, [f"{bad} rounds went wrong"] if bad else []
