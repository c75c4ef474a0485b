# ===- measuring.py - A stand-in for what measures this machine -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A copy of the simulator with a measurement beside it that takes no longer than asked."""

import json
import shutil
from pathlib import Path

PROFILE = {
    "version": 1,
    "gemm": [{
        "threads": 1,
        "ranks": 1,
        "cores": 2,
        "alpha_s": 1e-3,
        "flops_per_s": 1e9,
        "points": [{"m": 8, "n": 8, "k": 8, "seconds": 1e-5}],
    }],
}

# A file `said` beside it lets it fail.
STAND_IN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
cat "$(dirname "$0")/said" >&2 2> /dev/null && exit 1
sleep %g
while [ "$1" != --profile ]; do shift; done
cp "$(dirname "$0")/profile.json" "$2"
"""


def stand_in(tools, folder: Path, seconds: float = 0) -> Path:
    """The folder of both."""
    binaries = folder / "bin"
    binaries.mkdir()
    shutil.copy(tools.binaries / "optimus-simulate", binaries)
    (binaries / "optimus-run").write_text(STAND_IN % seconds)
    (binaries / "optimus-run").chmod(0o755)
    (binaries / "profile.json").write_text(json.dumps(PROFILE))
    return binaries
