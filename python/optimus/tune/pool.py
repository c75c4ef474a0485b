# ===- pool.py - Workers on this machine -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Local workers: processes, each the leader of a group, which are started, given jobs
and ended here. What they say becomes events in a queue."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Set

import optimus
from optimus.tune import TuneError, machine, toml_file
from optimus.tune.executor import Event, Events, Executor, Start, Takes, said


def local_starts(count: int) -> List[Start]:
    """So many workers with equal parts of this machine, each pinned to cores of its own
    where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    if machine.available_cores() < len(cores) or count > len(cores):
        return [Start("w%d" % place, share=count) for place in range(count)]
    each = len(cores) // count
    return [
        Start(
            "w%d" % place,
            share=count,
            cores=",".join(map(str, cores[place * each : (place + 1) * each])),
        )
        for place in range(count)
    ]


def read_pool(path: str) -> List[Start]:
    """Workers in a TOML file: [[worker]] with name, count, prefix, wall_seconds and
    environment. What they have they find. Raises TuneError."""
    _, found = toml_file.read(path)
    starts: List[Start] = []
    for row in found.get("worker", []):
        known = {"name", "count", "prefix", "wall_seconds", "environment", "class"}
        for key in row:
            if key not in known:
                raise TuneError(
                    "%s: worker: expected one of %s, found %s"
                    % (path, ", ".join(sorted(known)), key)
                )
        name = row.get("name", "w")
        for place in range(row.get("count", 1)):
            starts.append(
                Start(
                    "%s%d" % (name, place),
                    tuple(row.get("prefix", ())),
                    wall_seconds=row.get("wall_seconds"),
                    environment=tuple(sorted(row.get("environment", {}).items())),
                )
            )
    if not starts:
        raise TuneError("%s: expected [[worker]], found none" % path)
    names = [start.name for start in starts]
    if len(set(names)) != len(names):
        raise TuneError(
            "%s: expected workers of different names, found %s" % (path, ", ".join(names))
        )
    return starts


class Pool(Executor):
    """The processes. Events come by `events`; nothing of this waits."""

    def __init__(self, starts: List[Start], lock: int, events: Events):
        self.events, self._lock = events, lock
        self._processes: Dict[str, subprocess.Popen] = {}
        self._killed: Set[int] = set()
        """Processes of which nothing is heard any more."""
        for start in starts:
            self._processes[start.name] = self._start(start)

    @property
    def capacity(self) -> int:
        return len(self._processes)

    def restart(self, start: Start) -> None:
        self._processes[start.name] = self._start(start)

    def _start(self, start: Start) -> subprocess.Popen:
        source = os.path.dirname(os.path.dirname(optimus.__file__))
        paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = dict(
            os.environ, PYTHONPATH=":".join(paths), **dict(start.environment)
        )
        argv = [
            *start.prefix,
            sys.executable,
            "-m",
            "optimus.tune.worker",
            "--share",
            str(start.share),
        ]
        argv += ["--cores", start.cores] if start.cores else []
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                # A group of its own: it is ended with all that it runs.
                start_new_session=True,
                pass_fds=[self._lock],
            )
        except OSError as error:
            raise TuneError(
                "cannot start worker %s: %s: %s" % (start.name, argv[0], error.strerror)
            ) from None
        threading.Thread(
            target=self._listen, args=(start.name, process), daemon=True
        ).start()
        return process

    def _listen(self, name: str, process: subprocess.Popen) -> None:
        for line in process.stdout:
            if process.pid in self._killed:
                break
            with contextlib.suppress(ValueError):
                self.events.put(said(name, json.loads(line)))
        code = process.wait()
        if process.pid not in self._killed:
            self.events.put(Event("gone", name, code))

    def submit(self, name: str, job: Dict[str, Any], _takes: Takes) -> None:
        self._tell(name, dict(job, pass_fds=[self._lock]))

    def stop(self, name: str) -> None:
        self._tell(name, {"stop": True})

    def _tell(self, name: str, message: Dict[str, Any]) -> None:
        """A worker that is gone already says so by its event."""
        process = self._processes[name]
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write((json.dumps(message) + "\n").encode())
            process.stdin.flush()

    def kill(self, name: str) -> None:
        pid = self._processes[name].pid
        self._killed.add(pid)
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)

    def close(self, seconds: float = 12.0) -> None:
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.stdin.close()
        for name, process in self._processes.items():
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill(name)
                process.wait()
