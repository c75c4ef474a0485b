# ===- __init__.py - The reader of profiles, logs and studies -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads profiles of `optimus-run … --profile FILE`: `optimus-report`.

    database    SQLite files, and tables in them as arrays
    profile     checks profiles, and gives their calls one after another
    events      the history of memory in one call
    intervals   how long blocks lie idle between two accesses
    memory      all figures of `memory`, call by call
    swaps       the bytes that a move to the host and back could save
    queues      all figures of `timeline`, call by call
    runs        the files of one run, together
    window      some steps of one rank, in full, for pages and exports
    summary     the memory report in a terminal; `page` and `figures`: as a page
    timeline    the timeline report, in a terminal and as a page
    compare     a run beside its simulation, in a terminal and as a page

Reads logs of `optimus-run train --log-json FILE`, too:

    training_log   a log as columns, also while it is written
    training       runs side by side in a terminal; `training_page`: as a page
    follow         a run while it goes on, in a terminal

Reads studies of `optimus-tune`:

    study       attempts, influences and errors of predictions; `study_page`: as a page

All use:

    html        self-contained pages, with *.js and page.css
    exports     files for other tools
    text        numbers and tables for people

Times are nanoseconds, sizes and addresses bytes, unless a name says otherwise.
"""


class ReportError(Exception):
    """What is wrong with an input, in one sentence."""
