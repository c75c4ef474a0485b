# ===- child.py - One question to a GPU, in a process of its own -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Asks one of machine.py's or probes.py's questions, or alone.py's of a library:

    python3 child.py odd-pitch-copy
    python3 child.py alone gpt2-bf16

The last line of standard output is a JSON object with `answer`, yes or no, or none
without a driver, `said` in a line, and `figures`.
"""

import json
import os
import pathlib
import sys

from alone import alone
from cublaslt import CublasLtError
from driver import DriverError, NoDriver
from machine import MACHINE
from probes import PROBES, No


def ask(name, pack, *arguments):
    try:
        said, figures = {**MACHINE, **PROBES, "alone": alone}[name](pack, *arguments)
    except NoDriver as why:
        return {"answer": "none", "said": str(why), "figures": {}}
    except (No, DriverError, CublasLtError, ValueError) as why:
        return {"answer": "no", "said": str(why), "figures": {}}
    return {"answer": "yes", "said": said, "figures": figures}


if __name__ == "__main__":
    pack = pathlib.Path(__file__).resolve().parent
    print(json.dumps(ask(sys.argv[1], pack, *sys.argv[2:])), flush=True)
    # What a driver does at exit is no answer.
    os._exit(0)
