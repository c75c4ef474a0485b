# ===- dask.py - Workers on a cluster of Dask --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Workers that an existing scheduler of Dask.distributed starts: a task on each of its
workers, which lasts as long as the search. It connects to our scheduler (connected.py),
which has the leases."""

import logging
import os
import shlex
import subprocess
import warnings
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError, toml_file, wheels
from optimus.tune.connected import (
    MOST_WORKERS,
    SENT,
    SHARED,
    ConnectedPool,
    Task,
    check_files,
)
from optimus.tune.executor import Events, Start

SECONDS = 30
"""For an answer of Dask's scheduler."""
TYPES = {
    **{"scheduler": toml_file.TEXT, "host": toml_file.TEXT},
    **{"poll_seconds": toml_file.NUMBER, "files": toml_file.TEXT},
}


class Settings(NamedTuple):
    scheduler: str
    """Its address, as tcp://host:8786."""
    workers: Optional[int] = None
    """Ours; none: one on each of Dask's."""
    host: Optional[str] = None
    """Of this machine, as Dask's workers know it."""
    wall_minutes: Optional[int] = None
    """After which Dask's workers end."""
    poll_seconds: float = 15.0
    files: str = SHARED


def read_pool(path: str) -> Optional[Settings]:
    """The table [dask] of a TOML file, where it has one. Raises TuneError."""
    table = toml_file.read_only_table(path, "dask", Settings._fields, TYPES)
    if table is None:
        return None
    if "scheduler" not in table:
        raise TuneError("%s: dask: expected scheduler, its address, found none" % path)
    if not table.get("workers", 1) <= MOST_WORKERS:
        raise TuneError("%s: dask: expected 1 to %d workers" % (path, MOST_WORKERS))
    check_files(path, table)
    return Settings(**table)


def load() -> Any:
    """Dask.distributed. Raises TuneError where there is none."""
    found = wheels.load("distributed", "Dask.distributed for [dask]")
    # It logs tracebacks once its scheduler is gone: the consequences have messages of ours.
    # Versions may differ, since a call of Python's own is all it sends.
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "asyncio", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", module="distributed")
    return found


def client_of(settings: Settings) -> Any:
    """Raises TuneError."""
    distributed = load()
    try:
        return distributed.Client(
            settings.scheduler, timeout=SECONDS, set_as_default=False
        )
    except (OSError, ValueError) as error:
        raise TuneError(
            "cannot reach Dask's scheduler at %s: %s" % (settings.scheduler, error)
        ) from None


def starts(settings: Settings, client: Any) -> List[Start]:
    """One for each of Dask's workers, unless the settings say how many."""
    count = settings.workers or len(_addresses(client))
    if not count:
        raise TuneError(
            "Dask's scheduler at %s has no workers yet; start them, or say how many "
            "there will be" % settings.scheduler
        )
    return [Start("d%d" % place) for place in range(count)]


def _addresses(client: Any) -> List[str]:
    """Of Dask's workers. Raises TuneError."""
    try:
        return sorted(client.scheduler_info(n_workers=-1)["workers"])
    except (OSError, RuntimeError) as error:
        raise _silent(error) from None


def _silent(error: Exception) -> TuneError:
    return TuneError("Dask's scheduler does not answer: %s" % error)


class DaskPool(ConnectedPool):
    def __init__(
        self,
        settings: Settings,
        client: Any,
        folder: str,
        spec_folder: str,
        starts: List[Start],
        _lock: int,
        events: Events,
    ):
        self._settings, self._client = settings, client
        self._places: Dict[str, str] = {}
        """The Dask worker of each of ours."""
        minutes = settings.wall_minutes
        super().__init__(
            "dask",
            folder,
            starts,
            events,
            settings.host,
            None if minutes is None else 60.0 * minutes,
            settings.poll_seconds,
            spec_folder if settings.files == SENT else None,
        )

    def _launch(self, tasks: Dict[int, Task], worker: List[str]) -> None:
        """Each on the Dask worker with the fewest of ours."""
        addresses = _addresses(self._client)
        for place, task in tasks.items():
            name = self._names[place]
            self._places.pop(name, None)
            if not addresses:
                raise TuneError("Dask's scheduler has no workers any more")
            taken = list(self._places.values())
            address = self._places[name] = min(addresses, key=taken.count)
            log, address_file = self._log(str(place), task.serial), ""
            words = [*worker, "--task", str(place)]
            if self._settings.files == SENT:
                # Where no folder is shared Dask brings what the file says.
                with open(self._file, encoding="utf-8") as file:
                    address_file = file.read()
                words[words.index(self._file)] = "-"
                log = '"${TMPDIR:-/tmp}"/' + shlex.quote(os.path.basename(log))
            else:
                log = shlex.quote(log)
            # A function of Python's own: Optimus need not be importable there.
            task.job = self._client.submit(
                subprocess.run,
                ["sh", "-c", "exec %s >%s 2>&1" % (shlex.join(words), log)],
                input=address_file,
                text=True,
                key="%s-%d-%d" % (self._name, task.serial, place),
                workers=[address],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )

    def _lost(self, waiting: List[Tuple[str, Task]]) -> Iterable[str]:
        addresses = set(_addresses(self._client))
        for name, task in waiting:
            if task.job.done() or self._places[name] not in addresses:
                yield name

    def _end_all(self) -> None:
        try:
            self._client.cancel(
                [task.job for task in self._tasks.values() if task.job is not None],
                force=True,
            )
            self._client.close(SECONDS)
        except (OSError, RuntimeError) as error:
            raise _silent(error) from None
