# ===- checks.py - What is found out about a GPU, and in which order --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The checks of `bench/gpu/run`, by jobs of ten minutes each and in their order: what
tells most comes first, and steps of ours before PyTorch's. A check returns what is to
be recorded: `summary`, one line; `figures`; and `rows` of a table with its `title`."""

import dataclasses
import json
from typing import Callable

import correctness
import speed
from plan import LARGE, LARGEST, LARGEST_UNIT, SMALL
from probes import PROBES
from session import Failed


@dataclasses.dataclass(frozen=True)
class Check:
    job: int
    name: str
    seconds: int
    """How long it may take."""
    run: Callable

    @property
    def kind(self):
        """Checks of one kind have much in common, and may hang alike."""
        return self.name.partition("/")[0]


def ask(question, *arguments, title=""):
    """One of child.py's questions, to which all but "yes" is a failure."""

    def run(session):
        answer = session.ask(question, *arguments)
        if answer["answer"] != "yes":
            raise Failed(answer["said"])
        figures = answer["figures"]
        table = dict(title=title, rows=figures.pop("rows")) if title else {}
        return dict(summary=answer["said"], figures=figures, **table)

    return run


def properties(session):
    found = session.child("properties")
    session.write("properties.json", json.dumps(found, indent=1) + "\n")
    rows = [{"property": name, "value": value} for name, value in found.items()]
    return dict(summary=found["name"], title="The GPU", rows=rows, figures=found)


def clocks(session):
    """Those of now, and what may slow them down."""
    program = session.program("nvidia-smi")
    output = session.call(program, "-q", "-d", "CLOCK,POWER,PERFORMANCE,TEMPERATURE")
    session.write("clocks.txt", output)
    return dict(summary="in clocks.txt")


def probe(question):
    """A "no" is an answer, too: it says what to mend."""

    def run(session):
        answer = session.ask(question)
        if answer["answer"] == "none":
            raise Failed(answer["said"])
        figures = {"answer": answer["answer"], **answer["figures"]}
        rows = figures.pop("rows", None)
        table = dict(title=f"Probe {question}", rows=rows) if rows else {}
        return dict(summary=f"{answer['answer']}: {answer['said']}", figures=figures, **table)

    return run


def timed(libraries, model):
    """The libraries whose steps are timed, of a model."""
    return [each for each in libraries if each.model == model]


def first_job(libraries):
    tiny = {each.name: each for each in libraries if each.reference and not each.mesh}
    first = [tiny[name] for name in ("gpt2-bf16", "gpt2-bf16-cudnn")]
    # The larger batch first; of each cuDNN's attention, then ours.
    steps = timed(libraries, SMALL)
    checks = [
        ("properties", 30, properties),
        ("clocks", 30, clocks),
        ("toy", 30, ask("toy")),
        *((f"probe/{name}", 60, probe(name)) for name in PROBES),
        ("ceilings/copy", 30, ask("copy")),
        ("ceilings/gemm", 60, ask("gemm")),
    ]
    for kind, check in (
        ("blocking", correctness.blocking),
        ("eager", correctness.eager),
        ("recorded", correctness.recorded),
        ("gradients", correctness.gradients),
    ):
        checks += [(f"{kind}/{each.name}", 60, check(each)) for each in first]
    checks += [(f"steps/{each.name}", 60, speed.steps(each)) for each in steps]
    checks += [(f"kernels/{each.name}", 60, speed.kernels(each)) for each in steps[:2]]
    checks.append((f"torch/{steps[1].name}", 180, speed.torch_steps(steps[1])))
    checks += [(f"tuned/{each.name}", 120, speed.tuned(each)) for each in steps[:1]]
    for each in tiny.values():
        if each not in first:
            checks.append((f"gradients/{each.name}", 60, correctness.gradients(each)))
            checks.append((f"recorded/{each.name}", 60, correctness.recorded(each)))
    for each in tiny.values():
        if each.is_emulated:
            title = f"Kernels of {each.name}, alone"
            checks.append((f"alone/{each.name}", 60, ask("alone", each.name, title=title)))
    checks += [(f"memory/{each.name}", 60, speed.memory(each)) for each in steps[:2]]
    fitting, beyond = (each for each in libraries if each.gpu_bytes)
    checks.append((f"largest/{fitting.name}", 60, speed.largest(fitting, beyond)))
    checks.append((f"torch/{steps[3].name}", 180, speed.torch_steps(steps[3])))
    return checks


def second_job(libraries):
    """Several ranks, what a training run needs besides, and the machine's own rates."""
    checked = [each for each in libraries if each.reference]
    single = [each for each in checked if not each.mesh]
    meshes = [each for each in checked if each.mesh]
    checks = [("nccl", 60, speed.nccl)]
    for each in meshes:
        checks.append((f"gradients/{each.name}", 60, correctness.gradients(each)))
        checks.append((f"recorded/{each.name}", 60, correctness.recorded(each)))
    checks += [(f"steps/{each.name}", 60, speed.steps(each)) for each in libraries if "dropout" in each.name]
    # It drops out, with the processor's masks.
    named = [each for each in single if each.name.startswith("gpt2-")]
    checks += [(f"microbatches/{each.name}", 60, correctness.microbatches(each)) for each in named]
    checks += [(f"checkpoints/{each.name}", 60, correctness.checkpoints(each)) for each in named]
    checks += [
        (f"tf32/{each.name}", 60, correctness.gradients(each, "--tf32"))
        for each in single
        if each.precision == "f32"
    ]
    checks += [
        ("machine/gemm", 120, speed.machine_rates("--gemm")),
        ("machine/comm", 120, speed.machine_rates("--comm")),
    ]
    return checks


def third_job(libraries):
    """The large model, PyTorch's largest batch, and NVIDIA's tools, which are slow."""
    large = timed(libraries, LARGE)
    checks = [(f"steps/{each.name}", 120, speed.steps(each)) for each in large]
    fitting = next(each for each in libraries if each.gpu_bytes)
    # PyTorch chooses its attention itself.
    checks += [(f"torch/{each.name}", 300, speed.torch_steps(each)) for each in large[-1:]]
    checks.append((f"largest/torch-{LARGEST}", 240, speed.torch_largest(fitting, LARGEST_UNIT)))
    tiny = [each for each in libraries if each.reference and not each.mesh]
    checks += [(f"counters/{each.name}", 120, speed.counters(each)) for each in tiny[:1]]
    for tool in ("memcheck", "racecheck", "synccheck"):
        checks += [(f"sanitizer/{tool}/{each.name}", 120, speed.sanitizer(each, tool)) for each in tiny]
    return checks


def all_checks(libraries):
    return [
        Check(job, *check)
        for job, checks in enumerate((first_job, second_job, third_job), start=1)
        for check in checks(libraries)
    ]
