# ===- programs.py - Programs that say something --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs programs for what they write: Slurm's, and the help of ours."""

import subprocess
from typing import List

from optimus.tune import TuneError

SECONDS = 30.0


def call(argv: List[str]) -> str:
    """What a program writes. Raises TuneError where it fails, or says nothing in time."""
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
            # A signal to the scheduler is not theirs.
            start_new_session=True,
        )
    except OSError as error:
        raise TuneError("cannot start %s: %s" % (argv[0], error.strerror)) from None
    except subprocess.TimeoutExpired:
        raise TuneError("%s: no answer within %g s" % (argv[0], SECONDS)) from None
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip()
        if said.startswith(argv[0] + ": "):
            raise TuneError(said)
        raise TuneError("%s: %s" % (argv[0], said or "exit code %d" % ended.returncode))
    return ended.stdout.decode("utf-8", "replace")
