# ===- best.py - The best trial, to keep -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes the best trial of a study into a folder of its own: its checkpoint, its flags
and the commands that repeat it."""

import json
import os
import shlex
import shutil
from typing import List

from optimus import output
from optimus.tune import TuneError, names
from optimus.tune.jobs import Folder
from optimus.tune.outcome import PATIENCE
from optimus.tune.study import Study, Trial

SCRIPT = "repeat.sh"


def commands(trial: Trial, folder: str) -> str:
    """A script that trains the same again, in the folder where it is started; data are
    found relative to `folder`."""
    keeps = ' --keep-best "$here/repeated-best"' if PATIENCE in trial.values else ""
    lines: List[str] = [
        "#!/bin/sh",
        "# Trains trial %d again. The builder, optimus-compile and optimus-run are in PATH"
        % trial.number,
        "# and PYTHONPATH.",
        "set -e",
        "here=$PWD",
        "cd %s" % shlex.quote(folder),
        shlex.join(
            ["python3", "-m", "optimus.models", *names.arguments(trial.values, "model")]
        )
        + ' -o "$here/model.mlir"',
        'optimus-compile "$here/model.mlir" '
        + shlex.join(names.arguments(trial.values, "compile"))
        + ' -o "$here/model.so"',
        'optimus-run train "$here/model.so" '
        + shlex.join(names.arguments(trial.values, "train"))
        + ' --save "$here/repeated" --log-json "$here/repeated.jsonl"'
        + keeps,
    ]
    return "\n".join(lines) + "\n"


def write(study: Study, folder: Folder, target: str) -> Trial:
    """Raises TuneError where there is none, or the folder is not empty."""
    trial = study.best()
    if trial is None:
        raise TuneError(
            "%s has no trial that is done; optimus-tune show says what came of them"
            % folder.path
        )
    checkpoint = folder.kept(trial)
    if not os.path.isdir(checkpoint):
        raise TuneError(
            "expected the checkpoint of trial %d in %s, found none"
            % (trial.number, checkpoint)
        )
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise TuneError("-o '%s' is there already; name a new folder" % target)
    parent = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(parent):
        raise TuneError("cannot write '%s': there is no folder '%s'" % (target, parent))
    try:
        with output.new_folder(target) as new:
            _fill(new, trial, checkpoint, folder, study.header["folder"])
    except OSError as error:
        raise TuneError("cannot write '%s': %s" % (target, error.strerror)) from None
    return trial


def _fill(new: str, trial: Trial, checkpoint: str, folder: Folder, origin: str) -> None:
    """Data are found relative to `origin`."""
    shutil.copytree(checkpoint, os.path.join(new, "checkpoint"))
    shutil.copy(os.path.join(folder.trial(trial.number), "log.jsonl"), new)
    with open(os.path.join(new, "flags.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "trial": trial.number,
                "space": trial.space,
                "values": trial.values,
                "objectives": trial.objectives,
            },
            file,
            indent=1,
        )
        file.write("\n")
    script = os.path.join(new, SCRIPT)
    with open(script, "w", encoding="utf-8") as file:
        file.write(commands(trial, origin))
    os.chmod(script, 0o755)
