# ===- correctness.py - Whether a GPU trains as a processor does --------- ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Checks of results: gradients within bounds, losses beside a processor's."""

import json

from session import Failed

LEARNING_RATE = "3e-3"


def gradients(library, *flags):
    def run(session):
        reference = session.library(library.reference)
        command = ["verify", reference.file, library.file, "--data", session.data(library), "--json"]
        command += flags
        report = json.loads(session.optimus_run(*command))
        worst = max(report["tensors"], key=lambda tensor: tensor["of_bound"])
        return dict(
            summary=f"{len(report['tensors'])} tensors, at most {worst['of_bound']:.3f} of a bound: {worst['name']}",
            figures=report,
        )

    return run


def training_log(session, library, *flags, environment=None):
    log = session.scratch(f"{library.name}.log")
    command = ["train", library.file, "--data", session.data(library), "--steps", session.steps]
    command += ["--lr", LEARNING_RATE, "--seed", 1, "--log-json", log, *flags]
    session.optimus_run(*command, environment=environment)
    lines = map(json.loads, log.read_text().splitlines())
    return [line for line in lines if "loss" in line]


def adds_in_one_order(library):
    """cuDNN's gradient does not, unless it is told to."""
    return "cudnn" not in library.flags or "--deterministic" in library.flags


def beside_processor(session, library, found, expected):
    """How far losses are apart, at most."""
    # Those of f32 as meshes on processors agree (test_meshes.py); one of bf16 by
    # its rounding of every value, 2^-8 (docs/equivalence.md).
    allowed = 1e-4 if library.precision == "f32" else 2**-8
    if len(found) != len(expected):
        raise Failed(f"{len(found)} steps were logged, expected {len(expected)}")
    apart = max(abs(one["loss"] - other["loss"]) / abs(other["loss"]) for one, other in zip(found, expected))
    if not apart <= allowed:
        raise Failed(f"a loss is {apart:.1e} away from the processor's, expected {allowed:.1e} at most")
    return dict(
        summary=f"{len(found)} steps, losses at most {apart:.1e} apart",
        figures={"expected": expected, "found": found},
    )


def blocking(library):
    """Each launch waits, each command is waited for: the first thing of ours on a GPU."""

    def run(session):
        expected = training_log(session, session.library(library.reference))
        found = training_log(session, library, "--eager", environment={"CUDA_LAUNCH_BLOCKING": "1"})
        return beside_processor(session, library, found, expected)

    return run


def eager(library):
    """Commands put on queues, one by one."""

    def run(session):
        expected = training_log(session, session.library(library.reference))
        return beside_processor(session, library, training_log(session, library, "--eager"), expected)

    return run


def recorded(library):
    """Recorded steps and steps without recording, beside the processor's."""

    def run(session):
        expected = training_log(session, session.library(library.reference))
        eager = training_log(session, library, "--eager")
        found = training_log(session, library)
        if adds_in_one_order(library):
            for one, other in zip(eager, found):
                if one["loss"] != other["loss"] or one["grad_norm"] != other["grad_norm"]:
                    raise Failed(f"step {one['step']}: {one['loss']} put on queues, {other['loss']} recorded")
        return beside_processor(session, library, found, expected)

    return run


def microbatches(library):
    """Steps of two batches, whose gradients are added up."""

    def run(session):
        flags = ["--microbatches", 2]
        expected = training_log(session, session.library(library.reference), *flags)
        return beside_processor(session, library, training_log(session, library, *flags), expected)

    return run


def checkpoints(library):
    """Either device goes on with the other's checkpoint, beside a run on one device."""

    def run(session):
        reference = session.library(library.reference)
        expected = training_log(session, reference)[1:]
        for begin, end in ((reference, library), (library, reference)):
            folder = session.scratch_folder(f"{begin.name}-checkpoint")
            training_log(session, begin, "--steps", 1, "--save", folder)
            found = training_log(session, end, "--load", folder)
            result = beside_processor(session, library, found, expected)
        return result

    return run
