# ===- slurm.py - Workers as jobs of Slurm --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Workers that Slurm starts: an array of jobs, each of which connects to the scheduler
(connected.py)."""

import shlex
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError, programs, toml_file
from optimus.tune.connected import (
    MOST_WORKERS,
    SENT,
    SHARED,
    ConnectedPool,
    Task,
    check_files,
)
from optimus.tune.executor import Events, Start

TYPES = {
    **{"partition": toml_file.TEXT, "host": toml_file.TEXT},
    **{"flags": toml_file.TEXTS, "poll_seconds": toml_file.NUMBER},
    **{"files": toml_file.TEXT, "folder": toml_file.TEXT},
}


class Settings(NamedTuple):
    workers: int
    partition: Optional[str] = None
    wall_minutes: Optional[int] = None
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    host: Optional[str] = None
    """Of the scheduler, as nodes know it."""
    flags: Tuple[str, ...] = ()
    poll_seconds: float = 15.0
    files: str = SHARED
    folder: Optional[str] = None
    """Of the scheduler's address and of the jobs' output, which nodes share; none: one in
    the study's."""

    @property
    def starts(self) -> List[Start]:
        return [Start("s%d" % place) for place in range(self.workers)]

    @property
    def wall_seconds(self) -> Optional[float]:
        return None if self.wall_minutes is None else 60.0 * self.wall_minutes


def read_pool(path: str) -> Optional[Settings]:
    """The table [slurm] of a TOML file, where it has one. Raises TuneError."""
    table = toml_file.read_only_table(path, "slurm", Settings._fields, TYPES)
    if table is None:
        return None
    if not 1 <= table.get("workers", 0) <= MOST_WORKERS:
        raise TuneError("%s: slurm: expected 1 to %d workers" % (path, MOST_WORKERS))
    check_files(path, table)
    return Settings(**{**table, "flags": tuple(table.get("flags", ()))})


class SlurmPool(ConnectedPool):
    def __init__(
        self,
        settings: Settings,
        folder: str,
        spec_folder: str,
        starts: List[Start],
        _lock: int,
        events: Events,
    ):
        self._settings = settings
        super().__init__(
            "slurm",
            folder,
            starts,
            events,
            settings.host,
            settings.wall_seconds,
            settings.poll_seconds,
            spec_folder if settings.files == SENT else None,
            settings.folder,
        )

    def _launch(self, tasks: Dict[int, Task], worker: List[str]) -> None:
        """One array of jobs."""
        settings = self._settings
        argv = ["sbatch", "--parsable", "--job-name=" + self._name]
        argv += ["--array=" + ",".join(map(str, tasks)), "--no-requeue"]
        argv += ["--output=" + self._log("%a", self._serial)]
        for flag, value in (
            ("partition", settings.partition),
            ("time", settings.wall_minutes),
            ("cpus-per-task", settings.cpus),
            ("mem", settings.memory_mib and "%dM" % settings.memory_mib),
        ):
            argv += [] if value is None else ["--%s=%s" % (flag, value)]
        command = "exec " + shlex.join(worker)
        array = programs.call([*argv, *settings.flags, "--wrap", command])
        for task in tasks.values():
            task.job = array.strip().split(";")[0]

    def _lost(self, waiting: List[Tuple[str, Task]]) -> Iterable[str]:
        argv = ["squeue", "--noheader", "--array", "--name=" + self._name]
        listed = programs.call([*argv, "--format=%F_%K"]).split()
        for name, task in waiting:
            if "%s_%d" % (task.job, self._names.index(name)) not in listed:
                yield name

    def _end_all(self) -> None:
        programs.call(["scancel", "--name=" + self._name])
