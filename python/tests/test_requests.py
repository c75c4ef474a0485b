# ===- test_requests.py - Compilations without a start ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""optimus-compile --requests: each answer is what a process of its own says."""

import json
import os
import subprocess

import pytest

from optimus.planning import Fault, Requests, plan_text
from tools import Model

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
PLAN = ["-", "--compile-to=place", "-o", "/dev/null", "--report-json", "-"]


@pytest.fixture
def requests(tools, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMUS_BIN_DIR", str(tools.binaries))
    found = Requests(str(tmp_path))
    yield found
    found.close()


def test_answers_are_those_of_processes(tools, requests, tmp_path):
    text = tools.program(MODEL).read_text()
    wrong = text.replace("optimus.model", "optimus.mode", 1)
    for flags, program in (
        ([], text),
        (["--precision=bf16", "--recompute=layer"], text),
        (["--precision=f17"], text),
        ([], wrong),
        (["--help"], ""),
        ([], text),
    ):
        command = tools.command("optimus-compile", *PLAN, *flags)
        alone = subprocess.run(
            command, input=program, capture_output=True, text=True, cwd=tmp_path
        )
        said = requests.call([*PLAN, *flags], program, niceness=1)
        assert said == (alone.returncode, alone.stdout, alone.stderr), flags
    assert plan_text(text, [], requests.call).report["rank_bytes"] > 0


def test_the_new_niceness_may_be_any(tools):
    """`nice` returns -1 for that niceness, and where it fails."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    request = {"arguments": ["--version"], "input": "", "nice": 1}
    command = tools.command("optimus-compile", "--requests")
    try:
        result = subprocess.run(
            command,
            input=json.dumps(request) + "\n",
            capture_output=True,
            text=True,
            preexec_fn=lambda: os.nice(-2 - before),
        )
    except subprocess.SubprocessError:
        pytest.skip("nobody but root may have a niceness below 0")
    answer = json.loads(result.stdout)
    assert answer["code"] == 0 and answer["output"], answer


def test_a_program_may_be_large(tools, requests):
    text = tools.program(MODEL).read_text() + "// \u00fc\n" * 100_000
    assert requests.call(PLAN, text).code == 0


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "line 2: "),
        ('{"arguments": "-"}', "line 2: expected array at request.arguments"),
        ('{"arguments": []}', "line 2: missing value at request.input"),
    ],
)
def test_what_is_no_request_ends_it(tools, line, message):
    first = json.dumps({"arguments": ["--version"], "input": ""})
    command = tools.command("optimus-compile", "--requests")
    given = "%s\n%s\n" % (first, line)
    result = subprocess.run(command, input=given, capture_output=True, text=True)
    assert result.returncode == 1 and message in result.stderr, result.stderr
    assert result.stderr.startswith("optimus-compile: error: --requests: ")
    (answer,) = result.stdout.splitlines()
    assert json.loads(answer)["output"].startswith("optimus-compile ")


def test_an_end_is_a_fault(requests):
    assert requests.call(["--version"], "").code == 0
    requests._process.kill()
    with pytest.raises(Fault, match="optimus-compile ended with exit code -9"):
        requests.call(["--version"], "")
    assert requests.call(["--version"], "").code == 0
