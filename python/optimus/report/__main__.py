# ===- __main__.py - The command line of optimus-report -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-report COMMAND FILE…` reads profiles, logs and studies.

Exit codes: 0 done, 1 the arguments, an input or the output are wrong, 2 a fault of
ours.
"""

import argparse
import os
from functools import partial
from typing import List, Optional

from optimus import __version__, arguments, output
from optimus.numpy_check import need_numpy_for

need_numpy_for("optimus-report")

from optimus.arguments import Parser, folder_name
from optimus.report import (
    ReportError,
    compare,
    follow,
    page,
    runs,
    study,
    study_page,
    summary,
    swaps,
    timeline,
    training,
    training_log,
    training_page,
    window,
)
from optimus.report.exports import (
    chakra,
    memory_viz,
    minimalloc,
    perfetto,
    tensorboard,
)
from optimus.report.memory import Memory
from optimus.report.profile import Profile
from optimus.report.queues import Queues
from optimus.tune import journal

PROGRAM = "optimus-report"

PAGE = "write a page of HTML there; - is standard output"
FORMATS = {
    "memory_viz": memory_viz.render,
    "perfetto": perfetto.render,
    "minimalloc": minimalloc.render,
}


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="Read profiles and logs of optimus-run train, and studies of "
        "optimus-tune.",
    )
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    memory = commands.add_parser("memory", help="what blocks of memory do, and when")
    memory.set_defaults(report=_memory)
    _add_inputs(memory, PAGE)
    memory.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME=D2H,H2D",
        help="a link to host memory and its rates in GB/s, beside those that are known",
    )
    queues = commands.add_parser("timeline", help="what queues execute, and when")
    queues.set_defaults(report=_timeline)
    _add_inputs(queues, PAGE)
    beside = commands.add_parser("compare", help="a run beside its simulation")
    beside.set_defaults(report=_compare)
    beside.add_argument("files", nargs="+", metavar="REAL", help="profiles of one run")
    beside.add_argument(
        "simulated", metavar="SIMULATED", help="of optimus-simulate --profile"
    )
    beside.add_argument(
        "--rank", type=int, metavar="R", help="the rank to compare (default: the first)"
    )
    beside.add_argument("-o", "--output", metavar="FILE", help=PAGE)
    run = commands.add_parser("run", help="training runs side by side")
    run.set_defaults(report=_run)
    run.add_argument("files", nargs="+", metavar="LOG", help="of train --log-json")
    run.add_argument("-o", "--output", metavar="FILE", help=PAGE)
    run.add_argument(
        "--follow",
        action="store_true",
        help="show the curve and the state of one run until it has ended",
    )
    run.add_argument(
        "--tensorboard",
        type=folder_name,
        metavar="DIR",
        help="write event files of TensorBoard there, a folder for each run",
    )
    search = commands.add_parser("study", help="what came of a search of optimus-tune")
    search.set_defaults(report=_study)
    search.add_argument("study", metavar="STUDY", help="the study's folder")
    search.add_argument("-o", "--output", metavar="FILE", help=PAGE)
    export = commands.add_parser("export", help="write what other tools read")
    export.set_defaults(report=_export)
    _add_inputs(export, "where to write; - is standard output")
    export.add_argument(
        "--format",
        choices=[*FORMATS, "chakra"],
        required=True,
        help="a memory snapshot for pytorch.org/memory_viz, a trace for "
        "ui.perfetto.dev, live ranges for optimus-plan, or a folder with Chakra's "
        "execution trace of each rank",
    )
    return parser


def _add_inputs(command: Parser, wrote: str) -> None:
    command.add_argument("files", nargs="+", metavar="FILE", help="profiles of one run")
    command.add_argument(
        "--incomplete",
        action="store_true",
        help="read profiles that were not closed, as far as they go",
    )
    command.add_argument(
        "--rank", type=int, metavar="R", help="the rank to draw (default: the first)"
    )
    command.add_argument(
        "--steps",
        metavar="FIRST:LAST",
        help="the steps to draw (default: from the second on, four at most)",
    )
    command.add_argument("-o", "--output", metavar="FILE", help=wrote)


def _memory(options: argparse.Namespace) -> None:
    links = [*swaps.LINKS, *map(swaps.parse, options.link)]
    memories, closely = _gather(options, Memory, lambda function: len(function.blocks))
    memory = next(each for each in memories if each.profile is closely.profile)
    render = partial(page.render, memory, closely, links)
    _write(options, summary.lines(memories, links), render)


def _timeline(options: argparse.Namespace) -> None:
    all_queues, closely = _gather(
        options, Queues, lambda function: len(function.commands)
    )
    _write(options, timeline.lines(all_queues), partial(timeline.render, closely))


def _compare(options: argparse.Namespace) -> None:
    for path in [options.simulated] if options.output is not None else []:
        check_output(options.output, [path])
    run = _read(options)
    found = compare.Comparison(run, Profile(options.simulated), options.rank)
    _write(options, compare.lines(found), partial(compare.render, found))


def _gather(options: argparse.Namespace, figures, boxes_of):
    """Of each file the figures, Memory or Queues, and what is looked at closely."""
    profiles = _read(options)
    choice = _choose(options, profiles, boxes_of)
    closely = window.Window(window.profile_of(profiles, choice.rank), choice)
    gathered = [
        figures(profile).gather(*([closely] if profile is closely.profile else []))
        for profile in profiles
    ]
    window.check([closely], choice)
    return gathered, closely


def _write(options: argparse.Namespace, lines: List[str], render) -> None:
    """The page, if one is wanted, and the lines, unless the page is where they go."""
    if options.output is not None:
        output.write(options.output, render(lines))
    if options.output != "-":
        output.write("-", "\n".join(lines) + "\n")


def _run(options: argparse.Namespace) -> None:
    if options.follow:
        return _follow(options)
    if options.output is not None:
        check_output(options.output, options.files)
    found = training.named([training_log.read(path) for path in options.files])
    if options.tensorboard is not None:
        tensorboard.write(found, options.tensorboard)
    _write(options, training.lines(found), partial(training_page.render, found))


def _study(options: argparse.Namespace) -> None:
    report = study.StudyReport(options.study)
    if options.output is not None:
        check_output(options.output, [os.path.join(options.study, journal.NAME)])
    _write(options, study.lines(report), partial(study_page.render, report))


def _follow(options: argparse.Namespace) -> None:
    if len(options.files) != 1:
        raise ReportError("--follow: expected one log, found %d" % len(options.files))
    for name, given in (("-o", options.output), ("--tensorboard", options.tensorboard)):
        if given is not None:
            raise ReportError("expected --follow or %s, found both" % name)
    follow.follow(options.files[0])


def _export(options: argparse.Namespace) -> None:
    if options.output is None:
        raise ReportError("export: expected -o FILE, found none")
    profiles = _read(options)
    choice = _choose(options, profiles, lambda function: len(function.commands))
    windows = window.windows_of(profiles, choice, options.rank is None)
    window.check(windows, choice)
    if options.format == "chakra":
        return chakra.write(windows, options.output)
    output.write_bytes(options.output, FORMATS[options.format](windows))


def _read(options: argparse.Namespace) -> List[Profile]:
    if options.output is not None:
        check_output(options.output, options.files)
    return runs.read(options.files, getattr(options, "incomplete", False))


def _choose(options: argparse.Namespace, profiles, boxes_of) -> window.Choice:
    return window.choose(profiles, options.rank, options.steps, boxes_of)


def check_output(path: str, files: List[str]) -> None:
    """Raises ReportError where an input would be written over."""
    for file in files:
        try:
            same = os.path.samefile(path, file)
        except (OSError, ValueError):
            continue
        if same:
            raise ReportError(
                "-o '%s' is the file that is read; give the output another name"
                % path
            )


def main(given: Optional[List[str]] = None) -> int:
    def act() -> None:
        options = _parser().parse_args(given)
        try:
            options.report(options)
        except MemoryError:
            raise ReportError("out of memory; profile fewer steps") from None

    return arguments.outcome(PROGRAM, act, ReportError)


if __name__ == "__main__":
    arguments.run(main)
