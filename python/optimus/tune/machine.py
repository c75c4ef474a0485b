# ===- machine.py - What a worker has --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds what this process may use: cores and their share, memory, instructions. Equal
workers are of one class."""

import functools
import os
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from optimus import __version__

INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""That products are faster with; a later one implies those before it."""
ONEDNN = {"AVX2": 1, "AVX512_CORE": 2, "AVX512_CORE_VNNI": 2, "AVX512_CORE_BF16": 3}
"""How many of them ONEDNN_MAX_CPU_ISA leaves."""
ROOT = "/sys/fs/cgroup"
SYSTEM = "OPTIMUS_SYSTEM_ROOT"
"""Below it tests have other files of /proc and /sys, as the runtime's do."""
UNLIMITED = 1 << 60


class Class(NamedTuple):
    """What equal workers have in common."""

    cores: float
    """Cores that may be used at the same time; 0.5 is half of one."""
    memory: int
    """Bytes."""
    instructions: str
    processor: str
    version: str = __version__

    @property
    def key(self) -> str:
        short = re.sub(r"[^A-Za-z0-9]+", "-", self.processor).strip("-")[:24]
        parts = (short, self.cores, self.memory >> 20, self.instructions)
        return "%s-%gc-%dM-%s" % parts

    @property
    def profile(self) -> str:
        return profile_of(self.key)


def profile_of(key: str) -> str:
    """The name of the machine profile of a class, by the key of this. A part of a core is
    granted for longer at a time than a product takes, so classes with parts of one core
    share it."""
    short, _, _, instructions = _parts(key)
    return "%s-%dt-%s" % (short, usual_threads(cores_of(key)), instructions)


def speed_of(key: str) -> str:
    """What its memory leaves of a class, by the key of this: those equal in it are equally
    fast."""
    short, cores, _, instructions = _parts(key)
    return "-".join((short, cores, instructions))


def cores_of(key: str) -> float:
    return float(_parts(key)[1][:-1])


def instructions_of(key: str) -> str:
    return _parts(key)[3]


@functools.lru_cache(maxsize=4096)
def _parts(key: str) -> List[str]:
    return key.rsplit("-", 3)


def usual_threads(cores: float) -> int:
    """That a run has, unless it says."""
    return max(1, int(cores))


def describe(workers: int = 1, is_pinned: bool = False) -> Class:
    """This process's, where so many share its memory, and its cores unless it is pinned
    to some of its own."""
    cores = available_cores() / (1 if is_pinned else workers)
    return Class(
        cores=float("%.2g" % cores),
        memory=available_memory() // workers,
        instructions=_instructions(),
        processor=_of_cpuinfo("model name") or "unknown",
    )


def available_cores() -> float:
    """Those of the affinity mask, less where a cgroup grants less time."""
    quotas = [_quota(folder) for folder in _cgroups("cpu")]
    return min([float(len(os.sched_getaffinity(0))), *(each for each in quotas if each)])


def available_memory() -> int:
    limits = [
        _number(os.path.join(folder, name)) or UNLIMITED
        for folder in _cgroups("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *limits])


def _cgroups(controller: str) -> Iterator[str]:
    """The folders of this process's group and of those around it, of cgroup v1 or v2."""
    for version, path in _own_groups(controller):
        base = ROOT if version == 2 else os.path.join(ROOT, controller)
        if version == 2 and not os.path.exists(
            _place(os.path.join(ROOT, "cgroup.controllers"))
        ):
            base = os.path.join(ROOT, "unified")
        parts = [part for part in path.split("/") if part]
        # A container sees its own group as the root.
        for count in range(len(parts), -1, -1):
            folder = os.path.join(base, *parts[:count])
            if os.path.isdir(_place(folder)):
                yield folder


def _own_groups(controller: str) -> List[Tuple[int, str]]:
    found = []
    for line in _text("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            found.append((2, path))
        elif controller in controllers.split(","):
            found.append((1, path))
    return found


def _quota(folder: str) -> Optional[float]:
    """Cores' worth of time that a group grants."""
    both = _text(os.path.join(folder, "cpu.max")).split()
    if len(both) == 2 and both[0].isdigit():
        return int(both[0]) / int(both[1])
    quota = _number(os.path.join(folder, "cpu.cfs_quota_us"))
    period = _number(os.path.join(folder, "cpu.cfs_period_us"))
    return quota / period if quota and period and quota > 0 else None


def _instructions() -> str:
    flags = _of_cpuinfo("flags").split()
    limit = ONEDNN.get(os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper(), len(INSTRUCTIONS))
    found = [name for name in INSTRUCTIONS[:limit] if name in flags]
    return found[-1] if found else "sse2"


def _of_cpuinfo(key: str) -> str:
    found = re.search(r"^%s\s*: (.*)$" % key, _text("/proc/cpuinfo"), re.M)
    return found[1] if found else ""


def _place(path: str) -> str:
    return os.environ.get(SYSTEM, "") + path


def _text(path: str) -> str:
    try:
        with open(_place(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(path: str) -> Optional[int]:
    text = _text(path).strip()
    return int(text) if re.fullmatch(r"-?\d+", text) else None
