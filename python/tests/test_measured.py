# ===- test_measured.py - Plans from what a run measured -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-compile --profile` takes the times of commands from a profile of a run,
names their share of a step, and refuses profiles without them."""

import contextlib
import re
import shutil
import sqlite3

import pytest

from tools import EMULATED, Model, succeed, call

MODEL = Model(layers=2, hidden=48, heads=4, sequence=32, vocabulary=256, batch=4)
DEEPER = MODEL._replace(layers=3)
WIDER = MODEL._replace(hidden=64)
LONGER = MODEL._replace(batch=8)
FLAGS = ["--threads-per-rank", 1, "--seed", 1]


def record(tools, text, library, path, steps=4):
    """The profile of a run."""
    succeed(call(tools.train_command(library, text, steps, *FLAGS, "--profile", path)))
    return path


@pytest.fixture(name="profile")
def make_profile(tools, text, tmp_path):
    return record(tools, text, tools.library(MODEL), tmp_path / "run.profile")


def compile_with(tools, model, profile, *flags):
    command = ["optimus-compile", tools.program(model), "--profile", profile, *flags]
    return tools.call(*command, "--compile-to=place", "--report", "-o", "/dev/null")


def line_of(report, function, word):
    """What the report says of a function in the line of a word."""
    part = report.partition(f"\n{function} ")[2]
    return re.search(rf"^  {word} +(.*)$", part, re.MULTILINE)[1]


def change(profile, sql):
    connection = sqlite3.connect(profile)
    connection.executescript(sql)
    connection.commit()
    connection.close()


def split(profile, path, processes):
    """The files that a run of so many processes writes for --profile PATH."""
    for i in range(processes):
        shutil.copy(profile, f"{path}.{i}")
        change(
            f"{path}.{i}",
            f"UPDATE trace SET value = {processes} WHERE key = 'processes';"
            f"UPDATE trace SET value = {i} WHERE key = 'process';",
        )
    return path


def change_times(profile, sql):
    """As change(), of times and transfers, which become tables of rows for it. These
    tables then agree with the spans, the source of all readers."""
    with contextlib.closing(sqlite3.connect(profile)) as connection:
        views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
        to_tables = [
            f"CREATE TABLE changed AS SELECT * FROM {name}; DROP VIEW {name};"
            f"ALTER TABLE changed RENAME TO {name};"
            for name, in views
        ]
    change(profile, "".join(to_tables) + sql)
    rows = (
        "UPDATE spans SET {0} = (SELECT json_group_array(json_array({1} first, last)) FROM"
        " (SELECT command, {2}.begin - calls.begin AS first, {2}.end - calls.begin AS last"
        " FROM {2} JOIN calls USING (call) WHERE call = spans.call ORDER BY command));"
    )
    change(
        profile,
        rows.format("commands", "", "times")
        + rows.format("transfers", "command,", "transfers"),
    )


@pytest.mark.parametrize("flags", [[], ["--recompute", "layer"], ["--schedule", "memory"]])
def test_everything_that_ran_is_known(tools, profile, flags):
    """In another schedule too, and where it runs again."""
    report = succeed(compile_with(tools, MODEL, profile, *flags))
    known, commands = re.match(
        r"(\d+) of (\d+) commands, 100.0 % of their time",
        line_of(report, "train_step", "measured"),
    ).groups()
    assert known == commands
    assert "for" in line_of(report, "train_step", "lay idle")


def test_measured_times_are_the_prediction(tools, profile):
    """Every command takes a millisecond but products, which take ten."""
    change_times(
        profile,
        "UPDATE times SET begin = 0, end = 1000000;"
        "UPDATE times SET end = 10000000 WHERE command IN"
        " (SELECT command FROM commands WHERE kind = 'gemm');",
    )
    connection = sqlite3.connect(profile)
    kinds = [kind for kind, in connection.execute("SELECT kind FROM commands")]
    expected = sum(10 if kind == "gemm" else 1 for kind in kinds)
    report = succeed(compile_with(tools, MODEL, profile))
    assert line_of(report, "train_step", "predicted").startswith(f"{expected:.2f} ms")


@pytest.mark.parametrize(
    "cheap, chosen, other",
    # Products may read weights that were packed for them.
    [
        (["gemm", "pack"], "attn.qkv:0", "mlp.gelu"),
        (["launch"], "mlp.gelu:0", "attn.qkv"),
    ],
)
def test_cheap_is_recomputed(tools, profile, cheap, chosen, other):
    """What is recomputed within a budget follows the times: what costs nothing
    is, while all else would take for ever."""
    change_times(
        profile,
        "UPDATE times SET begin = 0, end = 9000000000;"
        "UPDATE times SET end = 1 WHERE command IN"
        f" (SELECT command FROM commands WHERE kind IN {(*cheap, cheap[0])});",
    )
    flags = ["--recompute", "budget", "--memory-budget", "2150KiB"]
    report = succeed(compile_with(tools, MODEL, profile, *flags))
    recomputed = line_of(report, "train_step", "recomputed")
    assert chosen in recomputed and other not in recomputed


def test_copies_hide_behind_measured_times(tools, profile):
    """Fetches and stores of offloaded values hide behind the commands' measured times:
    next to nothing, or a second each. Of copies both ways at once half are hidden at
    most where there is nothing to hide them."""
    hidden = []
    for nanoseconds in (1, 10**9):
        change_times(profile, f"UPDATE times SET begin = 0, end = {nanoseconds}")
        flags = ["--offload", "state,parameters,activations"]
        report = succeed(compile_with(tools, MODEL, profile, *flags))
        paging = line_of(report, "train_step", "paging")
        hidden.append(int(re.search(r"(\d+) % is hidden", paging)[1]))
    assert hidden[0] <= 50 and hidden[1] >= 90


@pytest.fixture(name="of_mesh")
def make_profile_of_mesh(tools, text, tmp_path):
    library = tools.library(MODEL, "row:2,col:2", "summa")
    return record(tools, text, library, tmp_path / "mesh.profile")


def test_collectives_and_other_meshes(tools, of_mesh):
    mesh, profile = ["--mesh", "row:2,col:2"], of_mesh
    as_it_ran = [*mesh, "--tune-products=false"]
    report = succeed(compile_with(tools, MODEL, profile, *as_it_ran))
    assert "100.0 % of their time" in line_of(report, "train_step", "measured")
    for other in (["--mesh", "row:1,col:4"], [*mesh, "--strategy", "megatron"], [*mesh, *EMULATED], []):
        report = succeed(compile_with(tools, MODEL, profile, *other))
        assert "is not used: it is of mesh row:2,col:2 with strategy summa on cpu" in report
        assert "measured" not in report
    # Nobody looks at a report that is not asked for.
    command = ["optimus-compile", tools.program(MODEL), "--profile", profile]
    result = tools.call(*command, "--compile-to=place", "-o", "/dev/null")
    assert result.returncode == 0
    assert re.search("warning: profile .* is not used: it is of mesh row:2,col:2", result.stderr)


def test_collectives_share_the_time_that_they_are_under_way(tools, of_mesh):
    """All of a call at once, for a second: together they take one on each axis."""
    change_times(of_mesh, "UPDATE transfers SET begin = 0, end = 1000000000")
    flags = ["--mesh", "row:2,col:2", "--tune-products=false", "--schedule", "none"]
    report = succeed(compile_with(tools, MODEL, of_mesh, *flags))
    assert line_of(report, "train_step", "predicted").endswith(
        "waiting for 2000.00 ms of communication"
    )


def test_products_move_by_measured_links(tools, of_mesh):
    """Where a message takes long however small it is, few of them: tensors move
    whole. What is said of products on the command line stands."""
    change_times(of_mesh, "UPDATE transfers SET begin = 0, end = 1000000000;")
    command = ["optimus-compile", tools.program(MODEL), "--mesh", "row:2,col:2"]
    command += ["--compile-to=tune", "-o", "-", "--profile", of_mesh]
    for flags, expected in [([], True), (["--tune-products=false"], False),
                            (["--move", "panels"], False), (["--move", "whole"], True)]:
        program = succeed(tools.call(*command, *flags))
        assert ("ccl.matmul" not in program) == expected


def test_other_programs(tools, profile):
    for model, flags, message in [
        (DEEPER, [], "found one without parameter 'h.2."),
        (WIDER, [], "found one whose 'wte.weight' has 49152 bytes on a rank instead of 65536"),
        (LONGER, [], "found one whose 'tokens' has 512 bytes on a rank instead of 1024"),
    ]:
        result = compile_with(tools, model, profile, *flags)
        assert result.returncode == 1
        assert result.stderr.count("to be of a run of this program") == 1
        assert message in result.stderr


@pytest.mark.parametrize(
    "sql, message",
    [
        ("UPDATE trace SET value = 0 WHERE key = 'complete'", "expected a closed profile"),
        ("DELETE FROM calls", "expected at least one step, found none"),
        ("DROP TABLE spans", "no such table: spans"),
        ("UPDATE spans SET commands = '[[0,'", "malformed JSON"),
        ("PRAGMA application_id = 1", "expected a profile, found another database"),
        ("PRAGMA user_version = 1", "expected version 2 of a profile, found 1"),
    ],
)
def test_changed_files(tools, profile, sql, message):
    change(profile, sql)
    result = compile_with(tools, MODEL, profile)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("optimus-compile: error: --profile: profile '")
    assert message in result.stderr


def test_damaged_files(tools, profile, tmp_path):
    whole = profile.read_bytes()
    for name, contents in {
        "truncated": whole[: len(whole) // 2],
        "text": b"not a database, though it is long enough to be one" * 50,
        "empty": b"",
    }.items():
        path = tmp_path / name
        path.write_bytes(contents)
        result = compile_with(tools, MODEL, path)
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1
    for path in (tmp_path / "nothing", tmp_path):
        assert compile_with(tools, MODEL, path).returncode == 1


def test_processes(tools, text, tmp_path):
    """Each process writes a file; all of them are read by the name given."""
    library = tools.library(MODEL, "row:2,col:2", "summa")
    profile = record(tools, text, library, tmp_path / "one.profile")
    split(profile, tmp_path / "many.profile", 2)
    change_times(tmp_path / "many.profile.1", "UPDATE times SET end = end + 1000000")
    flags = ["--mesh", "row:2,col:2", "--schedule", "none", "--tune-products=false"]
    one, many = (
        succeed(compile_with(tools, MODEL, tmp_path / name, *flags))
        for name in ("one.profile", "many.profile")
    )
    predicted = [
        float(line_of(report, "train_step", "predicted").split()[0])
        for report in (one, many)
    ]
    # A millisecond for each command that computes.
    commands = int(line_of(one, "train_step", "measured").split()[0])
    assert predicted[0] < predicted[1] < predicted[0] + commands
    change(tmp_path / "many.profile.1", "UPDATE commands SET path = 'elsewhere'")
    result = compile_with(tools, MODEL, tmp_path / "many.profile", *flags)
    assert result.returncode == 1 and "of the processes of one run" in result.stderr


# --------------------------------------------------------- files of many processes


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_missing_file_is_named(tools, profile, tmp_path, lost):
    run = split(profile, tmp_path / "run", 3)
    succeed(compile_with(tools, MODEL, run))
    (tmp_path / f"run.{lost}").unlink()
    result = compile_with(tools, MODEL, run)
    assert result.returncode == 1
    assert f"found no {run}.{lost}" in result.stderr
    assert f"{run}.0 to {run}.2" in result.stderr


def test_a_file_under_another_name_is_refused(tools, profile, tmp_path):
    run = split(profile, tmp_path / "run", 2)
    shutil.copy(tmp_path / "run.0", tmp_path / "run.1")
    result = compile_with(tools, MODEL, run)
    assert result.returncode == 1
    assert "expected process 1 of the run, found process 0" in result.stderr


# ------------------------------------------------------------- files made to harm

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE VIEW calls AS {ENDLESS} SELECT i AS step, i AS call, 0 AS function FROM n",
        "CREATE VIEW calls AS SELECT call, step, function, load_extension('/none') AS begin"
        " FROM kept",
        "CREATE VIRTUAL TABLE calls USING fts5(call, step, function, begin)",
    ],
)
def test_sql_of_the_file_does_not_run(tools, profile, sql):
    change(profile, "DROP VIEW times; DROP VIEW transfers; ALTER TABLE calls RENAME TO kept")
    change(profile, sql)
    result = compile_with(tools, MODEL, profile)
    assert result.returncode == 1
    assert f"profile '{profile}': expected that 'calls' is a table" in result.stderr


def test_views_of_the_file_are_not_read(tools, profile):
    endless = f"CREATE VIEW times(call, command, begin, end) AS {ENDLESS} SELECT 1, 2, 3, i FROM n"
    change(profile, "DROP VIEW times;" + endless)
    succeed(compile_with(tools, MODEL, profile))


def test_a_damaged_page_is_found(tools, profile):
    data = bytearray(profile.read_bytes())
    data[-4096 : -4096 + 64] = b"\xa5" * 64
    profile.write_bytes(data)
    result = compile_with(tools, MODEL, profile)
    assert result.returncode == 1
    assert f"profile '{profile}': it is damaged: " in result.stderr
