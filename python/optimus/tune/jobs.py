# ===- jobs.py - What workers are told to run ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The commands of trials and of measurements of a class, and where a study keeps what they
read and write."""

import contextlib
import hashlib
import os
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from optimus import __version__
from optimus.tools import find_tool
from optimus.tune import TuneError, names, outcome, packing, spaces
from optimus.tune.costs import is_for_gpu, ranks_of, threads_of
from optimus.tune.journal import Record
from optimus.tune.study import Trial

FEW_CORES = 0.3
"""Parts of a core with which less is measured."""
COLLECTIVES = ("--max-bytes", str(1 << 22))
"""How much of them is measured."""
MOST_MEASURED = 60
"""Seconds for all of a class."""
MEASURING = 4.0
"""Seconds of a core that it takes, about."""


def program_key(values: Dict[str, Any], instructions: str, lanes: int = 1) -> str:
    """Of the library that trials of these values train."""
    flags = [*names.arguments(values, "model"), "--", *names.arguments(values, "compile")]
    flags += ["--lanes=%d" % lanes] if lanes > 1 else []
    return _key((flags, instructions, __version__))


def _key(of: Any) -> str:
    return hashlib.sha256(repr(of).encode()).hexdigest()[:16]


class Folder:
    """Where a study keeps its files. Workers may know it by a relative path."""

    def __init__(self, path: str):
        self.path = path

    def trial(self, number: int) -> str:
        return os.path.join(self.path, "trials", "%06d" % number)

    def checkpoint(self, number: int) -> str:
        return os.path.join(self.trial(number), "checkpoint")

    def best(self, number: int) -> str:
        """The checkpoint of a trial's least held-out loss, where it has patience."""
        return os.path.join(self.trial(number), "best")

    def kept(self, trial: Trial) -> str:
        """The checkpoint whose loss is the trial's objective."""
        has_patience = outcome.PATIENCE in trial.values
        return self.best(trial.number) if has_patience else self.checkpoint(trial.number)

    def lanes(self, number: int) -> str:
        """The flags of trials that run as lanes, this one first."""
        return os.path.join(self.trial(number), "lanes.txt")

    def program(self, key: str) -> str:
        return os.path.join(self.path, "programs", key + ".so")

    @property
    def kernels(self) -> str:
        """Machine code of kernels, which programs share."""
        return os.path.join(self.path, "programs", "kernels")

    def model(self, arguments: List[str]) -> str:
        """The text of a model, by arguments of optimus.models."""
        key = _key((arguments, __version__))
        return os.path.join(self.path, "programs", key + ".mlir")

    def profile(self, name: str) -> str:
        """Of classes, by their name of it."""
        return os.path.join(self.path, "classes", name + ".json")

    def measured(self, worker: str) -> str:
        """What becomes one."""
        return os.path.join(self.path, "classes", worker + ".new")

    def make(self) -> None:
        for name in ("trials", "programs", "classes"):
            os.makedirs(os.path.join(self.path, name), exist_ok=True)


INSIDE = Folder("")
"""Paths in it."""


def measure(folder: Folder, worker: str, its_class: Record, ranks: Iterable[int]) -> Record:
    """The job of a worker that measures its class: products, attention and kernels with as
    many threads as a trial has there, and collectives of so many ranks."""
    least = its_class["cores"] < FEW_CORES
    profile = folder.measured(worker)
    threads = str(threads_of(its_class, {}))
    parts = [["--gemm", "--largest", str(256 if least else 512), "--rounds", "1"]]
    parts[0] += ["--threads-per-rank", threads]
    parts += [["--comm", "--ranks", str(each), *COLLECTIVES] for each in ranks]
    bench = [find_tool("optimus-run"), "bench", "--profile", profile]
    limit = ["timeout", str(MOST_MEASURED // len(parts))]
    place = os.path.dirname(profile)
    commands = [
        {
            "name": " ".join(part[:3]),
            "argv": [*limit, *bench, *part],
            "log": profile + ".txt",
        }
        for part in parts
    ]
    return {"job": worker, "folder": place, "cwd": place, "commands": commands}


def ranks_in(space: spaces.Space) -> List[int]:
    """How many ranks the meshes of a specification have, as far as it lists them."""
    found = set()
    for leaf in spaces.names(space):
        if leaf.name == "compile.mesh":
            its = leaf.domain
            for mesh in getattr(its, "options", None) or [getattr(its, "value", None)]:
                if isinstance(mesh, str):
                    with contextlib.suppress(ValueError):
                        found.add(ranks_of(mesh))
    return sorted(found - {1})


Jobs = List[Tuple[Trial, Optional[int]]]
"""Trials and the steps after which they end, if not the last."""


def commands(folder: Folder, jobs: Jobs, its_class: Record, lanes: int) -> List[Record]:
    """What a worker runs for a trial, or for several as lanes: the builder, the compiler,
    training. The library has some lanes, and trials alone are one of them."""
    trial = jobs[0][0]
    library = folder.program(program_key(trial.values, its_class["instructions"], lanes))
    arguments = names.arguments(trial.values, "model")
    place, model = folder.trial(trial.number), folder.model(arguments)
    build = [
        sys.executable,
        "-m",
        "optimus.models",
        *arguments,
        "-o",
        model,
    ]
    compile_it = [
        find_tool("optimus-compile"),
        model,
        *names.arguments(trial.values, "compile"),
        *(["--lanes=%d" % lanes] if lanes > 1 else []),
        *([] if is_for_gpu(trial.values) else ["--kernel-cache", folder.kernels]),
        "-o",
        library,
    ]
    train = [find_tool("optimus-run"), "train", library]
    if len(jobs) == 1:
        train += train_flags(folder, *jobs[0])
    else:
        common = names.arguments(trial.values, "train", only=packing.COMMON)
        train += [*common, "--lanes", folder.lanes(trial.number)]
    return [
        {
            "name": "build",
            "argv": build,
            "log": os.path.join(place, "build.txt"),
            "makes": model,
        },
        {
            "name": "compile",
            "argv": compile_it,
            "log": os.path.join(place, "compile.txt"),
            "makes": library,
        },
        {"name": "train", "argv": train, "log": os.path.join(place, "train.txt")},
    ]


def train_flags(
    folder: Folder, trial: Trial, until: Optional[int], leave_out: Iterable[str] = ()
) -> List[str]:
    """Of a trial, and where its results are to be."""
    found = [
        *names.arguments(trial.values, "train", leave_out),
        "--save",
        folder.checkpoint(trial.number),
        "--resume",
        "--log-json",
        os.path.join(folder.trial(trial.number), outcome.LOG),
    ]
    if outcome.PATIENCE in trial.values:
        found += ["--keep-best", folder.best(trial.number)]
    return found + (["--until=%d" % until] if until is not None else [])


def write_lanes(folder: Folder, seen: Folder, jobs: Jobs) -> None:
    """The file that lanes are read from, and the folders of their trials; `seen` is the
    study's as workers know it."""
    rows = [packing.row(train_flags(seen, *job, packing.COMMON)) for job in jobs]
    path = folder.lanes(jobs[0][0].number)
    try:
        for trial, _ in jobs:
            os.makedirs(folder.trial(trial.number), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
    except OSError as error:
        raise TuneError(cannot_write(path, error.strerror)) from None


def cannot_write(path: str, why: str) -> str:
    return "cannot write '%s': %s; the same command goes on from here" % (path, why)
