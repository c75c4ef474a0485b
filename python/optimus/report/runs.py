# ===- runs.py - The files of one run -------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A job of several processes writes a file for each. They are read together, and
must be of one run."""

from typing import List, Sequence

from optimus.report import ReportError
from optimus.report.profile import Profile

# What is one in a run; of each process is its own.
ALIKE = (
    *("library", "model_hash", "strategy", "mesh", "precision", "device"),
    *("placement", "ranks", "processes", "optimus"),
)


def read(paths: Sequence[str], incomplete: bool = False) -> List[Profile]:
    """The profiles in the order of their processes. Raises ReportError."""
    profiles = [Profile(path, incomplete) for path in paths]
    for profile in profiles[1:]:
        _check_alike(profiles[0], profile)
    profiles.sort(key=lambda profile: profile.process)
    for one, other in zip(profiles, profiles[1:]):
        if one.process == other.process:
            raise ReportError(
                "expected the files of one run, found process %d in both '%s' and '%s'; "
                "give the files of one run, each once"
                % (one.process, one.path, other.path)
            )
    _check_times(profiles)
    return profiles


def missing(profiles: Sequence[Profile]) -> int:
    """How many processes of the run no file was given of."""
    return max(0, profiles[0].processes - len(profiles))


def offset(profile: Profile, first: Profile) -> int:
    """What to add to a profile's times to have them from the origin of `first`."""
    return profile.origin - first.origin


def _check_alike(one: Profile, other: Profile) -> None:
    for key in ALIKE:
        if one.trace.get(key) != other.trace.get(key):
            raise ReportError(
                "expected the files of one run, found %s '%s' in '%s' and '%s' in '%s'; "
                "read different runs one by one"
                % (
                    *(key, one.trace.get(key), one.path),
                    *(other.trace.get(key), other.path),
                )
            )


def _check_times(profiles: Sequence[Profile]) -> None:
    """Processes of one run work at one time."""
    spans = [
        (
            min(info.begin for info in profile.calls) + profile.origin,
            max(info.end for info in profile.calls) + profile.origin,
            profile.path,
        )
        for profile in profiles
        if profile.calls
    ]
    spans.sort()
    for (_, end, path), (begin, _, later) in zip(spans, spans[1:]):
        if begin > end:
            raise ReportError(
                "expected the files of one run, found that '%s' begins %.1f s after "
                "the end of '%s'; read different runs one by one"
                % (later, (begin - end) / 1e9, path)
            )
