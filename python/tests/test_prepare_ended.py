# ===- test_prepare_ended.py - Preparations that end early -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Killed, short of room or side by side, preparations make the same store."""

import gzip
import json
import subprocess
import sys

import pytest

from optimus.data.__main__ import main
from stores import (
    bytes_of,
    compressed,
    corpus,
    environment,
    library,
    needs_tokenizers,
    run,
    texts_of,
    trained,
    verses,
)
from tools import call

KILLED = """
import os, signal, sys
from optimus.data import documents, preparing, store
from optimus.data.__main__ import main
documents.BLOCK, preparing.SECONDS_BETWEEN_RECORDS = 20_000, 0
def after(count, function):
    left = [count]
    def wrapped(*arguments):
        result = function(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped
name, count = sys.argv[1], int(sys.argv[2])
holder = {"append": store.SplitWriter, "write_record": preparing.Workshop}.get(name, store)
setattr(holder, name, after(count, getattr(holder, name)))
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.rotates
@pytest.mark.parametrize("name", ["bytes", pytest.param("file", marks=needs_tokenizers)])
def test_a_killed_preparation_goes_on_to_the_same_bytes(tmp_path, verses, name, request):
    lines = "".join(json.dumps({"text": verse}) + "\n" for verse in verses).encode()
    path = tmp_path / ("corpus.jsonl.gz" if name == "bytes" else "corpus.jsonl.zst")
    path.write_bytes(gzip.compress(lines) if name == "bytes" else compressed(lines))
    long = tmp_path / "long.txt"
    long.write_text("\n".join(verses))
    tokenizer = "bytes"
    if name == "file":
        tokenizer = request.getfixturevalue("trained") / "one"
    options = ["--shard-tokens", "5000", "--held-out", "0.3", "--jobs", "2"]
    options.append("--no-first-targets")
    command = ["prepare", path, long, "--tokenizer", tokenizer, *options, "-o"]
    command = list(map(str, command))
    expected = tmp_path / "expected"
    assert run(*command, expected).returncode == 0
    folder = tmp_path / "store"
    went_on = 0
    for moment in (("write_record", 1), ("append", 3), ("write_record", 4), ("append", 1)):
        killed = call(
            [sys.executable, "-c", KILLED, *map(str, moment), *command, str(folder)],
            env=environment(),
        )
        assert killed.returncode == -9, killed.stderr
        assert not folder.exists()
        went_on += "going on with" in killed.stderr
    assert went_on == 3
    last = run(*command, folder)
    assert last.returncode == 0 and "going on with" in last.stderr
    assert bytes_of(folder) == bytes_of(expected)
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store"]


SLOW = """
import os, sys, time
from optimus.data import documents, preparing, store
from optimus.data.__main__ import main
documents.BLOCK, preparing.SECONDS_BETWEEN_RECORDS = 20_000, 0
append = store.SplitWriter.append
def wait(*arguments):
    append(*arguments)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
store.SplitWriter.append = wait
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("ending", ["finished", "killed"])
def test_jobs_share_one_preparation(tmp_path, corpus, ending):
    command = ["prepare", str(corpus), "--documents", "lines", "--tokenizer", "bytes", "-o"]
    assert main([*command, str(tmp_path / "expected")]) == 0
    folder, go = tmp_path / "store", tmp_path / "go"
    piped = dict(env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    slow = [sys.executable, "-c", SLOW, str(go), *command, str(folder)]
    first = subprocess.Popen(slow, **piped)
    lock = tmp_path / "store.preparing/lock"
    try:
        while not (lock.exists() and lock.stat().st_size):
            assert first.poll() is None, first.communicate()
        module = [sys.executable, "-m", "optimus.data", *command, str(folder)]
        others = [subprocess.Popen(module, **piped) for _ in range(3)]
        waiting = [other.stderr.readline() for other in others]
        assert all("the same command; waiting for it" in line for line in waiting)
        # Another command does not wait.
        another = run(*command, folder, "--held-out", 0.5)
        assert another.returncode == 1
        assert "is prepared by another process\n" in another.stderr
        if ending == "finished":
            go.touch()
        else:
            first.kill()
        said = [other.communicate() for other in others]
        assert [other.returncode for other in others] == [0, 0, 0], said
        assert len({out for out, _ in said}) == 1
    finally:
        first.kill()
        first.communicate()
    # One goes on where the killed one was.
    went_on = sum("going on with" in error for _, error in said)
    assert went_on == (ending == "killed")
    assert bytes_of(folder) == bytes_of(tmp_path / "expected")
    assert sorted(path.name for path in tmp_path.glob("store*")) == ["store"]


@pytest.mark.rotates
def test_what_a_killed_one_left_is_not_trusted(tmp_path, corpus, capfd):
    options = ["--documents", "lines", "--shard-tokens", "5000"]
    command = ["prepare", str(corpus), "--tokenizer", "bytes", *options, "-o"]
    folder, expected = tmp_path / "store", tmp_path / "expected"
    assert main([*command, str(expected)]) == 0

    def kill():
        killed = call(
            [sys.executable, "-c", KILLED, "write_record", "4", *command, str(folder)],
            env=environment(),
        )
        assert killed.returncode == -9

    kill()
    (shard,) = sorted((tmp_path / "store.preparing/train").glob("*.bin"))[-1:]
    shard.write_bytes(shard.read_bytes()[:-7])
    assert main([*command, str(folder)]) == 0
    assert "is damaged; preparing begins anew" in capfd.readouterr().err
    assert bytes_of(folder) == bytes_of(expected)
    subprocess.run(["rm", "-r", folder], check=True)
    kill()
    with open(corpus, "a") as file:
        file.write("more\n")
    assert main([*command, str(folder)]) == 0
    assert "of another command or of other files" in capfd.readouterr().err
    assert any(b"more\0" == bytes(text) for text in texts_of(folder))


def test_a_full_disk_is_no_end(tmp_path, corpus):
    command = ["prepare", corpus, "--tokenizer", "bytes", "--documents", "lines", "-o"]
    folder = tmp_path / "store"
    # Files of 100 kB at most.
    made = subprocess.run(
        ["prlimit", "--fsize=100000", sys.executable, "-m", "optimus.data"]
        + list(map(str, [*command, folder])),
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert made.returncode == 1 and made.stderr.count("error:") == 1, made.stderr
    message = "cannot write '%s.preparing': File too large; run the command again" % folder
    assert message in made.stderr
    assert not folder.exists()
    assert main(list(map(str, [*command, folder]))) == 0
    assert main(list(map(str, [*command, tmp_path / "expected"]))) == 0
    assert bytes_of(folder) == bytes_of(tmp_path / "expected")
