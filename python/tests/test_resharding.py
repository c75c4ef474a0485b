# ===- test_resharding.py - The memory of loading and saving --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What processes really hold, as Linux counts it, of a model whose parameters
and moments are 100 MB."""

import json

import pytest

from tools import Model, call, succeed

MODEL = Model(layers=2, hidden=512, heads=8, sequence=16, vocabulary=4096, batch=8)
MIB = 1 << 20


def reshard(tools, mesh, strategy, *flags, prefix=()):
    """What optimus-bench-reshard says of the model on this mesh."""
    library = tools.library(MODEL, mesh, strategy)
    command = tools.command("optimus-bench-reshard", library, *flags)
    return json.loads(succeed(call([*prefix, *command])))


@pytest.fixture(scope="module")
def serial(tools, tmp_path_factory):
    """A checkpoint of the serial program, and what writing it took."""
    folder = tmp_path_factory.mktemp("serial") / "checkpoint"
    return folder, reshard(tools, None, "serial", "--save", folder)


def test_a_rank_holds_what_it_says(serial):
    _, report = serial
    assert report["moments"] == 2 * report["parameters"] > 60 * MIB
    assert report["arena"] > 30 * MIB
    # Besides: libraries' data, their heaps, and two allocations in huge pages.
    held = report["processes"][0]["save"]["before"]["RssAnon"]
    assert 0 <= held - report["rank_bytes"] < 12 * MIB
