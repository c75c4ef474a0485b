# ===- test_recompute.py - Activations made again -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What is made again in the backward is the same and saves memory."""

import json

import pytest

from tools import Model

MODEL = Model(layers=6, hidden=48, heads=4, sequence=32, vocabulary=256, batch=8)
FLAGS = ["--lr", 3e-3, "--seed", 1, "--threads-per-rank", 1]


@pytest.fixture(scope="module")
def library(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recompute")

    def compile_model(mesh, policy):
        path = folder / ("%s-%s.so" % (mesh.replace(":", ""), policy))
        if not path.exists():
            flags = ["--mesh", mesh, "--recompute", policy, "-o", path]
            tools.run("optimus-compile", tools.program(MODEL), *flags)
        return path

    return compile_model


def activation_bytes(tools, path):
    manifest = json.loads(tools.run("optimus-run", "inspect", path, "--json"))
    (step,) = [f for f in manifest["functions"] if f["name"] == "train_step"]
    return step["peak_bytes"]["activation"]


@pytest.mark.parametrize("mesh", ["row:1,col:1", "row:2,col:2"])
def test_policies_train_alike_in_less_memory(tools, text, tmp_path, library, mesh):
    logs, peaks = {}, {}
    for policy in ("none", "attention", "layer"):
        path = library(mesh, policy)
        logs[policy] = tools.train(path, text, 4, *FLAGS, log=tmp_path / policy)
        peaks[policy] = activation_bytes(tools, path)
    for policy in ("attention", "layer"):
        for one, other in zip(logs["none"], logs[policy]):
            # The same sums; what is fused with what differs, so roundings do.
            for key in ("loss", "grad_norm"):
                assert one[key] == pytest.approx(other[key], rel=1e-5)
    # In units of [b, s, h] a layer: all is 16 and statistics; attention keeps
    # the residual stream twice, qkv, and what GELU is made from, 9; layer the
    # residual stream, and one or two layers whole. The head's part is beside.
    assert peaks["attention"] < 0.75 * peaks["none"]
    assert peaks["layer"] < 0.5 * peaks["none"]


def test_an_unknown_policy_is_refused(tools, tmp_path):
    flags = ["--recompute", "everything", "-o", tmp_path / "model.so"]
    result = tools.call("optimus-compile", tools.program(MODEL), *flags)
    assert result.returncode == 1
    assert "--recompute: unknown policy 'everything'; known are none" in result.stderr
    assert not (tmp_path / "model.so").exists()
