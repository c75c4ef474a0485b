# ===- child.py - One question to a GPU, in a process of its own -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Asks one of machine.py's or probes.py's questions:

    python3 child.py odd-pitch-copy

The last line of standard output is a JSON object with `answer`, yes or no, `said`
in a line, and `figures`.
"""

import json
import os
import pathlib
import sys

from cublaslt import CublasLtError
from driver import DriverError
from machine import MACHINE
from probes import PROBES, No


def ask(name, pack):
    try:
        said, figures = {**MACHINE, **PROBES}[name](pack)
    except (No, DriverError, CublasLtError, ValueError) as why:
        return {"answer": "no", "said": str(why), "figures": {}}
    return {"answer": "yes", "said": said, "figures": figures}


if __name__ == "__main__":
    print(json.dumps(ask(sys.argv[1], pathlib.Path(__file__).resolve().parent)), flush=True)
    # What a driver does at exit is no answer.
    os._exit(0)
