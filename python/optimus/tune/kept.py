# ===- kept.py - What classes took in earlier searches ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What classes of workers took, kept in the user's cache from one search to the next:

    ~/.cache/optimus/classes/NAME-1t-avx2-beside-3.json    a machine profile
    ~/.cache/optimus/classes/NAME-0.4c-avx2-beside-3.json  rates and seconds of trials

by processor, threads or cores, instructions, and how many workers were beside it. Of
several the one with the nearest number of these counts. A file names its class, the
processor and the version of Optimus. One of something else is ignored, with a message.
"""

import glob
import json
import math
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from optimus import output, small_file
from optimus.tune.costs import SECONDS
from optimus.tune.journal import Record
from optimus.tune.machine import Class, speed_of

MOST_BYTES = 16 << 20
"""Of a file."""
MOST_POWER = 10.0
"""Of a step, by which a ratio may grow."""
ABOUT = "class"
"""The member of a file with its origin."""


def user_folder() -> str:
    """Where a user's caches are, by the XDG Base Directory Specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "optimus", "classes")


class Kept(NamedTuple):
    """Of classes with so many other workers."""

    beside: int
    folder: Optional[str]
    """None: nothing is kept."""

    def profile(self, its: Class) -> Optional[str]:
        """The path of a machine profile of its processor."""
        path, _ = self._read(its.profile, its, _is_profile)
        return path

    def taken(self, its: Class) -> Optional[Record]:
        """What Corrections.taken said of it."""
        _, found = self._read(speed_of(its.key), its, _is_taken)
        return found.get("taken")

    def keep_profile(self, its: Class, path: str) -> None:
        """A measured one."""
        if self.folder is not None:
            with small_file.open_regular(path) as file:
                self._write(its.profile, its, json.load(file))

    def keep_taken(self, its: Class, taken: Record) -> None:
        if self.folder is not None and (taken["rates"] or taken["seconds"]):
            self._write(speed_of(its.key), its, {"taken": taken})

    def _read(
        self, name: str, its: Class, is_whole: Callable[[Any], bool]
    ) -> Tuple[Optional[str], Record]:
        """A file, and what is in it."""
        for path in self._paths(name):
            try:
                found = json.loads(small_file.read(path, MOST_BYTES))
                about = found.get(ABOUT) if isinstance(found, dict) else None
            except (OSError, ValueError, RecursionError) as error:
                why = getattr(error, "strerror", None) or "it is no JSON"
            else:
                if about == _about(name, its) and is_whole(found):
                    return path, found
                why = "expected what %s took, found %s" % (
                    _text(_about(name, its)),
                    _text(about) if about != _about(name, its) else "something else",
                )
            output.say("optimus-tune: '%s' is ignored: %s; remove it" % (path, why))
        return None, {}

    def _paths(self, name: str) -> List[str]:
        """The nearest first."""
        if self.folder is None:
            return []
        begin = os.path.join(self.folder, name + "-beside-")
        found: Dict[str, int] = {}
        for path in glob.glob(glob.escape(begin) + "*.json"):
            count = path[len(begin) : -len(".json")]
            if count.isdigit():
                found[path] = int(count)
        return sorted(found, key=lambda path: (abs(found[path] - self.beside), found[path]))

    def _write(self, name: str, its: Class, found: Record) -> None:
        path = os.path.join(self.folder, "%s-beside-%d.json" % (name, self.beside))
        text = json.dumps({**found, ABOUT: _about(name, its)}) + "\n"
        try:
            os.makedirs(self.folder, exist_ok=True)
            output.write(path, text)
        except (OSError, output.OutputError) as error:
            output.say("optimus-tune: the next search will not know: %s" % error)


def _about(name: str, its: Class) -> Record:
    return {
        "of": name,
        "processor": its.processor,
        "optimus": its.version,
    }


def _text(about: Any) -> str:
    if not isinstance(about, dict):
        return "nothing of the kind"
    return "%s, processor %s, by Optimus %s" % tuple(
        about.get(name) for name in ("of", "processor", "optimus")
    )


def _is_profile(found: Record) -> bool:
    """The compiler reads the rest."""
    return isinstance(found.get("gemm"), list)


def _is_taken(found: Record) -> bool:
    taken = found.get("taken")
    try:
        rates, seconds = taken["rates"], taken["seconds"]
        return (
            all(
                isinstance(what, str) and isinstance(model, str) and _is_measured(rest)
                for what, model, *rest in rates
            )
            and all(map(_is_bend, taken["bends"].values()))
            and set(seconds) <= set(SECONDS)
            and all(map(_is_measured, seconds.values()))
            and isinstance(taken["own_bytes"], int)
        )
    except (KeyError, TypeError, ValueError):
        return False


def _is_measured(pair: Any) -> bool:
    """A median and its count."""
    value, count = pair
    return 0 <= value < math.inf and isinstance(count, int) and count > 0


def _is_bend(found: Any) -> bool:
    power, reference, low, high = found
    return abs(power) < MOST_POWER and 0 < low <= reference <= high < math.inf
