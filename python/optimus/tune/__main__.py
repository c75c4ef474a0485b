# ===- __main__.py - The command line of optimus-tune ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-tune COMMAND` searches over models, compilation and training.

Exit codes: 0 done, 1 the arguments, an input or the machine are wrong, 2 a fault of
ours, 128 + N where signal N ended it; the same command goes on then.
"""

import argparse
import functools
import gc
import glob
import os
import shlex
import shutil
from typing import Callable, List, Optional, Tuple

from optimus import __version__, arguments, output
from optimus.arguments import Parser, folder_name, whole_number
from optimus.errors import UnavailableError
from optimus.tools import find_tool
from optimus.tune import (
    TuneError,
    best,
    costs,
    dask,
    explain,
    journal,
    kept,
    machine,
    mix,
    nearest,
    pool,
    simulate,
    simulated,
    slurm,
    spec,
    view,
    virtual_pool,
)
from optimus.tune.executor import Start
from optimus.tune.jobs import Folder
from optimus.tune.policies import make_policy
from optimus.tune.predictor import Predictor
from optimus.tune.run import Run
from optimus.tune.samplers import make_sampler
from optimus.tune.scheduler import ORDERS
from optimus.tune.search import Search
from optimus.tune.study import Study

PROGRAM = "optimus-tune"
SPEC_COPY = "spec"
"""With the suffix of the original."""


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM, description="Search over models, compilation and training."
    )
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="run the trials of a search, or go on with them")
    run.set_defaults(act=_run)
    run.add_argument("spec", metavar="SPEC", help="the specification, a file of TOML or Python")
    run.add_argument(
        "-o",
        "--output",
        type=folder_name,
        metavar="STUDY",
        help="the study's folder (default: SPEC without its suffix, and .study)",
    )
    run.add_argument(
        "--workers",
        type=whole_number,
        metavar="N",
        help="so many workers with equal parts of this machine (default: one a core)",
    )
    run.add_argument("--pool", metavar="FILE", help="workers as a TOML file lists them")
    run.add_argument(
        "--sampler",
        metavar="NAME",
        help="who chooses points (default: the specification's, or random)",
    )
    run.add_argument(
        "--no-cache",
        action="store_true",
        help="takes nothing from earlier searches, and keeps nothing for later ones",
    )
    run.add_argument(
        "--measure",
        action="store_true",
        help="one worker of each class measures it before its first trial, unless an "
        "earlier search has (default: in long searches, between two trials)",
    )
    _add_order(run)
    show = commands.add_parser("show", help="what came of the trials of a study")
    show.set_defaults(act=_show)
    show.add_argument("study", metavar="STUDY")
    why = commands.add_parser(
        "explain",
        help="what was predicted of a trial, why it ran where it did, what came of it",
    )
    why.set_defaults(act=_explain)
    why.add_argument("study", metavar="STUDY")
    why.add_argument("trial", metavar="TRIAL", type=whole_number)
    play = commands.add_parser(
        "simulate", help="how long a search takes on workers that need not be here"
    )
    play.set_defaults(act=_simulate)
    play.add_argument("spec", metavar="SPEC")
    play.add_argument(
        "--pool", metavar="FILE", required=True, help="classes of workers, a TOML file"
    )
    _add_order(play)
    take = commands.add_parser(
        "best", help="write the best trial: checkpoint, flags, commands"
    )
    take.set_defaults(act=_best)
    take.add_argument("study", metavar="STUDY")
    take.add_argument(
        "-o",
        "--output",
        type=folder_name,
        metavar="DIR",
        required=True,
        help="a new folder",
    )
    return parser


def _add_order(command: Parser) -> None:
    command.add_argument(
        "--order",
        choices=ORDERS,
        default="placed",
        help="placed: a worker takes the trial that loses most elsewhere; fcfs: "
        "first come, first served; shadho: by complexity and priority of spaces, with "
        "--draw class, to compare with (default: %(default)s)",
    )
    command.add_argument(
        "--draw",
        choices=mix.DRAWS,
        default="shared",
        help="shared: the sampler's own mix of spaces; class: it is asked for each class "
        "in the spaces that suit it, which changes the mix (default: %(default)s)",
    )


def _run(options: argparse.Namespace) -> int:
    if options.pool is not None and options.workers is not None:
        raise TuneError("--workers: expected no --pool beside it")
    if options.workers is not None and not 1 <= options.workers <= 4096:
        raise TuneError("--workers: expected 1 to 4096, found %d" % options.workers)
    found = spec.read(options.spec)
    if options.sampler is not None:
        found = found._replace(study=found.study._replace(sampler=options.sampler))
    for name in ("optimus-compile", "optimus-run"):
        find_tool(name)
    sampler = make_sampler(found)
    output_folder = options.output or os.path.splitext(options.spec)[0] + ".study"
    folder = Folder(os.path.abspath(output_folder))
    starts, executor = _workers(options, folder, found.folder)
    try:
        folder.make()
    except OSError as error:
        raise TuneError("cannot make '%s': %s" % (folder.path, error.strerror)) from None
    lock = journal.Lock(folder.path)
    its_journal = journal.Journal(folder.path)
    search = Search(found, sampler, make_policy(found), options.order, options.draw)
    _begin(search, its_journal, folder, found, options.draw)
    watch = view.Watch(search.study, list(found.study.objectives), found.study.trials)
    sampler.begin_copy(folder.path)
    cache = None if options.no_cache else kept.user_folder()
    run = Run(
        search,
        folder,
        its_journal,
        lock,
        starts,
        watch,
        executor,
        cache,
        measures_first=options.measure,
    )
    number = run.run()
    watch.close(run.now())
    sampler.close()
    if number:
        output.say("%s: stopped; the same command goes on" % PROGRAM)
        return 128 + number
    output.write(
        "-", "optimus-report study %s -o page.html draws it\n" % shlex.quote(folder.path)
    )
    return 0


def _workers(
    options: argparse.Namespace, folder: Folder, spec_folder: str
) -> Tuple[List[Start], Callable]:
    """How workers start, and what makes their executor."""
    if not options.pool:
        count = options.workers or max(1, int(machine.available_cores()))
        return pool.local_starts(count), pool.Pool
    cluster = slurm.read_pool(options.pool)
    if cluster:
        executor = functools.partial(slurm.SlurmPool, cluster, folder.path, spec_folder)
        return cluster.starts, executor
    farm = dask.read_pool(options.pool)
    if farm:
        client = dask.client_of(farm)
        executor = functools.partial(
            dask.DaskPool, farm, client, folder.path, spec_folder
        )
        return dask.starts(farm, client), executor
    return pool.read_pool(options.pool), pool.Pool


def _copy_of(found: spec.Spec) -> str:
    return SPEC_COPY + os.path.splitext(found.path)[1]


def _begin(
    search: Search,
    its_journal: journal.Journal,
    folder: Folder,
    found: spec.Spec,
    draw: str,
) -> None:
    """Takes up what the journal has, or begins it."""
    header = {
        "kind": "study",
        "version": __version__,
        "spec": found.digest,
        "sampler": found.study.sampler,
        "folder": found.folder,
        "objectives": list(found.study.objectives),
        "trials": found.study.trials,
        "draw": draw,
    }
    if not its_journal.records:
        shutil.copyfile(found.path, os.path.join(folder.path, _copy_of(found)))
        its_journal.append(header)
        return search.apply(header)
    before = its_journal.records[0]
    before.setdefault("draw", "shared")
    for name, what in (
        ("spec", "specification"),
        ("sampler", "sampler"),
        ("draw", "--draw"),
    ):
        if before.get(name) != header[name]:
            raise TuneError(
                "%s is a study of another %s; name another folder with -o, or "
                "give it the one in its %s" % (folder.path, what, _copy_of(found))
            )
    for record in its_journal.records:
        search.apply(record)


def _read(path: str) -> Study:
    study = Study()
    for record in journal.read(path):
        study.apply(record)
    if not study.header:
        raise TuneError("%s is no study: its journal is empty" % path)
    return study


def _show(options: argparse.Namespace) -> int:
    study, records = _read(options.study), journal.read(options.study)
    objectives = study.header["objectives"]
    width = shutil.get_terminal_size((100, 24)).columns
    last = records[-1].get("time", 0.0)
    rows = [
        view.cut(view.summary(study, objectives, study.header["trials"], last), width),
        "",
    ]
    rows += view.table(study, objectives, width)
    corrections = costs.corrections_of(records, study.trials)
    more = view.mix_lines(study) + view.correction_lines(corrections)
    rows += [view.cut(each, width) for each in more]
    output.write("-", "\n".join(rows) + "\n")
    return 0


def _explain(options: argparse.Namespace) -> int:
    records, study = journal.read(options.study), _read(options.study)
    found = explain.lines(records, study, options.trial)
    trial = study.trials[options.trial]
    corrections = costs.corrections_of(records, study.trials)
    if nearest.lacks_memory(trial, study, corrections):
        (its_spec,) = glob.glob(os.path.join(glob.escape(options.study), SPEC_COPY + ".*"))
        predictor = Predictor(study.header["folder"])
        space, predict = spec.read(its_spec).space, predictor.predict
        found += nearest.lines(nearest.changes(space, trial, study, corrections, predict))
        predictor.close()
    output.write("-", "\n".join(found) + "\n")
    return 0


def _simulate(options: argparse.Namespace) -> int:
    found = spec.read(options.spec)
    its_pool = virtual_pool.read_pool(options.pool, kept.user_folder())
    predictor = Predictor(
        found.folder,
        profiles=lambda: its_pool.profiles,
        objectives=found.study.objectives,
    )

    def end(with_pool: virtual_pool.Pool) -> Tuple[simulate.Result, Study]:
        sampler, policy = make_sampler(found), make_policy(found)
        search = Search(found, sampler, policy, options.order, options.draw)
        simulation = simulate.Simulation(search, with_pool, predictor.predict)
        return simulation.run(), search.study

    result, study = end(its_pool)
    more = {
        kind.name: end(its_pool.with_one_more(kind.name))[0].seconds
        for kind in its_pool.kinds
    }
    predictor.close()
    rows = simulated.lines(result, its_pool, more) + view.mix_lines(study)
    output.write("-", "\n".join(rows) + "\n")
    return 0


def _best(options: argparse.Namespace) -> int:
    trial = best.write(_read(options.study), Folder(os.path.abspath(options.study)), options.output)
    output.write(
        "-",
        "trial %d: %s\n"
        % (trial.number, view.ended(trial, _read(options.study).header["objectives"])),
    )
    return 0


def main(given: Optional[List[str]] = None) -> int:
    gc.disable()  # as Collector says

    def act() -> int:
        options = _parser().parse_args(given)
        return options.act(options)

    return arguments.outcome(PROGRAM, act, TuneError, UnavailableError)


if __name__ == "__main__":
    arguments.run(main)
