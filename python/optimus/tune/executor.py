# ===- executor.py - Where workers run ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What a study asks of the place where its workers run: this machine or a cluster."""

import abc
import queue
from typing import Any, Dict, List, NamedTuple, Optional, Tuple


class Event(NamedTuple):
    kind: str
    """hello, beat, result, gone, or whatever else is put into the queue."""
    worker: str
    data: Any


def said(worker: str, message: Dict[str, Any]) -> Event:
    """What a worker said, as an event."""
    kinds = [kind for kind in ("hello", "beat") if kind in message]
    return Event(kinds[0] if kinds else "result", worker, message)


Events = queue.Queue[Event]


class Start(NamedTuple):
    """How a worker is started."""

    name: str
    prefix: Tuple[str, ...] = ()
    """A command that starts another, as `taskset -c 0`."""
    share: int = 1
    cores: str = ""
    wall_seconds: Optional[float] = None
    environment: Tuple[Tuple[str, str], ...] = ()


class Takes(NamedTuple):
    """The files of a job, for executors that send them."""

    values: Tuple[Dict[str, Any], ...]
    """Of its trials, which may name some in the specification's folder."""
    writes: List[str]
    """That it goes on with or writes, in the study's; folders end with a slash."""


class Executor(abc.ABC):
    """Starts its workers when it is made. What they say comes as events in a queue: hello,
    beats, results, and gone once for each start. Nothing here waits for a worker but
    `close`."""

    said = ""
    """The last words of workers that ended before they said hello."""

    @property
    @abc.abstractmethod
    def capacity(self) -> int:
        """How many workers there are, those included that wait for their start."""

    @abc.abstractmethod
    def restart(self, start: Start) -> None:
        """A new worker in the place of one that is gone."""

    def seen(self, path: str) -> str:
        """By which path workers know one in the study's folder."""
        return path

    @abc.abstractmethod
    def submit(self, name: str, job: Dict[str, Any], takes: Takes) -> None:
        """Gives a job to a worker that is free. Raises TuneError."""

    def take(self, name: str) -> None:
        """Has in the study's folder what the last job of a worker wrote, once its result
        was heard. Raises OSError."""

    @abc.abstractmethod
    def stop(self, name: str) -> None:
        """Has a worker save and end its job, the result of which says so."""

    @abc.abstractmethod
    def kill(self, name: str) -> None:
        """A worker with all that it runs. It says nothing more, not that it is gone."""

    def expiring(self) -> List[str]:
        """Workers with too little wall time left for another job."""
        return []

    @abc.abstractmethod
    def close(self) -> None:
        """Asks all to save and end, and kills those that do not."""
