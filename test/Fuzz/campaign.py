#!/usr/bin/env python3
# ===- campaign.py - Mutants against whole programs ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs the tools on mutants for some time, as users would run them.

campaign.py commands|programs|tables|config --compiler DIR --runtime DIR --mutate PROGRAM
            --seeds DIR --seconds N --findings DIR [--first SEED]

`commands`: mutants of command lines. `programs`: mutants of the IR of every
phase are compiled from there, and what is accepted is trained for two steps.
`tables`: mutants of the tables and manifests of model libraries, which
optimus-table-mutants in build-asan/unittests makes and runs, some at a time.
`config`: mutants of config.json are imported by `optimus.models from-hf`.
Whatever happens, a tool ends by itself, with 0, or with 1 and a short message.
What did otherwise lies in the findings, with what led to it.
"""

import argparse
import collections
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple, Optional

RUNTIME_TOOLS = ["optimus-run", "optimus-simulate"]
SIGNS_OF_A_CRASH = [
    "Sanitizer",
    "runtime error:",
    "Stack dump",
    "Assertion",
    "terminate called",
    "LLVM ERROR",
    "PLEASE submit",
    "internal error",
]
# The compiler's libraries of LLVM are not instrumented.
ENVIRONMENT = dict(
    os.environ,
    ASAN_OPTIONS="detect_leaks=0:detect_container_overflow=0:allow_user_poisoning=0:"
    "allocator_may_return_null=1:max_allocation_size_mb=4096",
    UBSAN_OPTIONS="print_stacktrace=1",
    OMP_NUM_THREADS="1",
    PYTHONPATH=str(Path(__file__).resolve().parents[2] / "python"),
    PYTHONDONTWRITEBYTECODE="1",
)
MUTANTS_AT_ONCE = 50
# Nobody: what a mutant of a command line may write to is little.
NOBODY = 65534


class Outcome(NamedTuple):
    code: Optional[int]  # None: it did not end
    message: str


class Campaign:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.counts: collections.Counter = collections.Counter()
        self.scratch = Path(tempfile.mkdtemp(prefix="optimus-fuzz-"))
        os.chmod(self.scratch, 0o777)
        self.findings = Path(options.findings)
        self.findings.mkdir(parents=True, exist_ok=True)

    def mutant(self, seed: int, text: Path, other: Path) -> bytes:
        command = [self.options.mutate, str(text), str(seed), str(other)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    def tool(self, name: str) -> str:
        runtime = name in RUNTIME_TOOLS
        return str(Path(self.options.runtime if runtime else self.options.compiler) / name)

    def environment(self) -> dict:
        if self.options.target != "tables":
            return ENVIRONMENT
        # On memory that ends where it ends: kernels have no sanitizer.
        device = Path(self.options.runtime).parent / "lib" / "liboptimus_device_hidden.so"
        return dict(ENVIRONMENT, OPTIMUS_DEVICE_CPU_LIBRARY=str(device))

    def run(self, command: List[str], timeout: float) -> Outcome:
        # In a process group of its own, so that nothing outlives its time.
        process = subprocess.Popen(
            command,
            cwd=self.scratch,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=NOBODY if os.geteuid() == 0 else None,
        )
        try:
            _, message = process.communicate(timeout=timeout)
            code: Optional[int] = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            _, message = process.communicate()
            code = None
        return Outcome(code, message.decode(errors="replace"))

    def judge(self, outcome: Outcome, command: List[str]) -> Optional[str]:
        """What is wrong, or None."""
        if outcome.code is None:
            return "does not end"
        if outcome.code < 0:
            return "ends by signal %d" % -outcome.code
        if outcome.code not in (0, 1):
            return "exits with %d" % outcome.code
        for sign in SIGNS_OF_A_CRASH:
            if sign in outcome.message:
                return "says «%s»" % sign
        if outcome.code == 1 and not outcome.message.strip():
            return "fails without a message"
        # A name that is quoted may be as long as the command.
        most = 20_000 + 4 * len(" ".join(command))
        if outcome.code == 1 and len(outcome.message) > most:
            return "has a message of %d bytes" % len(outcome.message)
        return None

    def note(self, seed: int, what: str, outcome: Outcome, **files: bytes) -> None:
        folder = self.findings / ("%d" % seed)
        folder.mkdir(exist_ok=True)
        (folder / "message").write_text("%s\n%s" % (what, outcome.message))
        for name, contents in files.items():
            (folder / name).write_bytes(contents)
        print("finding %s: %s" % (folder, what), flush=True)
        self.counts["findings"] += 1

    def check(self, seed: int, command: List[str], timeout: float, **files) -> bool:
        """Whether it succeeded."""
        outcome = self.run(command, timeout)
        wrong = self.judge(outcome, command)
        self.counts["accepted" if outcome.code == 0 else "refused"] += 1
        if wrong:
            files["command"] = shlex.join(command).encode()
            self.note(seed, wrong, outcome, **files)
        return outcome.code == 0

    def refill(self) -> None:
        """Gives the next mutant the inputs as they were."""
        for entry in self.scratch.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        shutil.copytree(Path(self.options.seeds) / "inputs", self.scratch, dirs_exist_ok=True)
        if os.geteuid() == 0:
            for path in [self.scratch, *self.scratch.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)

    def commands(self, seed: int) -> None:
        lines = (Path(self.options.seeds) / "commands" / "all").read_text().splitlines()
        choice = random.Random(seed)
        one, other = self.scratch / "one", self.scratch / "other"
        one.write_text(choice.choice(lines))
        other.write_text(choice.choice(lines))
        text = self.mutant(seed, one, other).decode(errors="replace")
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        words = [word.replace("\0", "") for word in words]
        if not words or words[0] not in self.known_tools() or len(text) > 100_000:
            self.counts["not a command"] += 1
            return
        # What takes long because it is asked to is no hang.
        if re.search(r"--(steps|warmup)\W*\d{5}", text):
            self.counts["too long"] += 1
            return
        if seed % 50 == 0:
            self.refill()
        self.check(seed, [self.tool(words[0]), *words[1:]], 60)

    @staticmethod
    def known_tools() -> List[str]:
        names = "compile", "opt", "interpret", "plan", "run"
        return ["optimus-" + name for name in names]

    def programs(self, seed: int) -> None:
        seeds = sorted((Path(self.options.seeds) / "programs").iterdir())
        choice = random.Random(seed)
        chosen = choice.choice(seeds)
        mutant = self.mutant(seed, chosen, choice.choice(seeds))
        first, _, _ = chosen.read_text().partition("\n")
        _, mesh, strategy, precision, phase = first.split()
        if phase == "llvm":
            return
        program = self.scratch / "mutant.mlir"
        program.write_bytes(mutant)
        library = self.scratch / "mutant.so"
        library.unlink(missing_ok=True)
        options = ["--mesh", mesh, "--strategy", strategy, "--accumulate"]
        options += ["--precision", precision]
        start = ["--compile-from", phase, "-o", str(library)]
        compile_command = [self.tool("optimus-compile"), str(program), *options, *start]
        if not self.check(seed, compile_command, 60, program=mutant):
            return
        train = [self.tool("optimus-run"), "train", str(library), "--steps", "2"]
        train += ["--data", str(self.scratch / "text.txt"), "--timeout", "20"]
        if not self.check(seed, train, 60, program=mutant):
            self.counts["compiled, not trained"] += 1

    def tables(self, seed: int) -> None:
        libraries = sorted((Path(self.options.seeds) / "tables").iterdir())
        unittests = Path(self.options.runtime).parent / "unittests"
        library = libraries[seed % len(libraries)]
        # Seeds of one library do not meet those of another.
        first = seed // len(libraries) * MUTANTS_AT_ONCE % 2**31
        command = [str(unittests / "optimus-table-mutants"), str(library), "random"]
        command += [str(first), str(MUTANTS_AT_ONCE)]
        outcome = self.run(command, 300)
        # It says itself of which mutant.
        if outcome.code == 0:
            numbers = re.search(r"(\d+) accepted .* (\d+) refused", outcome.message)
            self.counts["accepted and run"] += int(numbers[1])
            self.counts["refused"] += int(numbers[2])
        else:
            wrong = self.judge(outcome, command) or "is refused without a message"
            self.note(seed, wrong, outcome, command=shlex.join(command).encode())

    def config(self, seed: int) -> None:
        seeds = sorted((Path(self.options.seeds) / "config").iterdir())
        choice = random.Random(seed)
        mutant = self.mutant(seed, choice.choice(seeds), choice.choice(seeds))
        folder = self.scratch / "hf"
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").touch()
        (folder / "config.json").write_bytes(mutant)
        # Programs of many layers take long because they are asked for.
        command = [sys.executable, "-m", "optimus.models", "from-hf", "hf"]
        outcome = self.run([*command, "--seq", "8"], 60)
        wrong = self.judge(outcome, command)
        # A quoted value is cut, whatever its length.
        if not wrong and outcome.code == 1 and len(outcome.message) > 20_000:
            wrong = "has a message of %d bytes" % len(outcome.message)
        self.counts["accepted" if outcome.code == 0 else "refused"] += 1
        if wrong:
            self.note(seed, wrong, outcome, config=mutant)

    def run_all(self) -> int:
        self.refill()
        end = time.monotonic() + self.options.seconds
        seed = self.options.first
        try:
            while time.monotonic() < end:
                getattr(self, self.options.target)(seed)
                seed += 1
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        each = MUTANTS_AT_ONCE if self.options.target == "tables" else 1
        print("%d mutants of %s: %s" % (
            (seed - self.options.first) * each,
            self.options.target,
            ", ".join("%d %s" % (n, what) for what, n in sorted(self.counts.items())),
        ))
        return 1 if self.counts["findings"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=["commands", "programs", "tables", "config"])
    for name in "compiler", "runtime", "mutate", "seeds", "findings":
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--first", type=int, default=1)
    return Campaign(parser.parse_args()).run_all()


if __name__ == "__main__":
    sys.exit(main())
