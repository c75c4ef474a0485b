# ===- test_simulate.py - optimus-simulate -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A library's tables, simulated on a symmetric mesh, take what the compiler predicted of
them; and what if they differed."""

import contextlib
import json
import math
import resource
import sqlite3

import pytest

from simulation import CLUSTER, COMPUTE, MACHINE, MODEL, SHAPE, compile_model, refuse, simulate
from tools import BertModel, LlamaModel, Model, PhiModel

pytestmark = pytest.mark.rotates

FAMILIES = {
    "gpt2": MODEL,
    "bert": BertModel(**SHAPE),
    "llama": LlamaModel(kv_heads=2, ffn=64, **SHAPE),
    "phi": PhiModel(rotary_dim=4, ffn=64, **SHAPE),
}

FAST = {**COMPUTE, "flops_per_s": 2e11, "kernel_alpha_s": 1e-6}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    path = tmp_path_factory.mktemp("machine") / "machine.json"
    path.write_text(json.dumps(MACHINE))
    return path


def commands_of(tools, library, function):
    text = tools.run("optimus-run", "inspect", library, "--commands", "--function", function)
    return sum(line[0].isdigit() for line in text.splitlines() if line)


def state_of(tools, library):
    """Bytes of the two moments of all parameters."""
    found = json.loads(tools.run("optimus-run", "inspect", library, "--json"))["buffers"]
    shapes = [one["local_shape"] for one in found if one["lifetime"] == "parameter"]
    return 2 * sum(4 * math.prod(shape) for shape in shapes)


def assert_alike(found, predicted, commands):
    """Term by term. Times are rounded to picoseconds, each command by half of one."""
    near = dict(rel=1e-12, abs=0.5e-9 * commands)
    for mine, theirs in [
        ("step_ms", "predicted_step_ms"),
        ("comm_ms", "predicted_comm_ms"),
        ("exposed_ms", "predicted_exposed_ms"),
    ]:
        assert found[mine] == pytest.approx(predicted[theirs], **near), mine
    assert found["parts_ms"].keys() == predicted["predicted_parts_ms"].keys()
    for kind, ms in predicted["predicted_parts_ms"].items():
        assert found["parts_ms"][kind] == pytest.approx(ms, **near), kind

    # A wait shorter than the rounding is one for either alone.
    def waits(answer):
        return {
            (wait["axis"], wait["collective"]): wait
            for wait in answer["waits"]
            if wait["ms"] > 1e-9 * commands
        }

    assert waits(found).keys() == waits(predicted).keys()
    for name, wait in waits(predicted).items():
        mine = waits(found)[name]
        for term in ("ms", "queued_ms", "idle_ms"):
            assert mine[term] == pytest.approx(wait[term], **near), (name, term)
        assert mine["late_ms"] == 0


CASES = [
    ("gpt2", "row:2,col:2", "summa", []),
    ("gpt2", "row:2,col:2", "summa", ["--schedule=none"]),
    ("gpt2", "row:1,col:4", "megatron-sp", []),
    ("gpt2", "row:1,col:1", "serial", ["--precision", "bf16"]),
    ("bert", "row:1,col:2", "megatron", ["--schedule=none"]),
    ("bert", "row:2,col:3", "summa", []),
    ("llama", "data:2,row:2,col:2", "summa", ["--precision", "bf16"]),
    ("llama", "row:2,col:2", "summa-paper", ["--recompute=layer"]),
    ("phi", "data:4", "data", []),
    ("gpt2", "data:4", "data", ["--sync", "sync(next)"]),
    ("phi", "row:2,col:2", "megatron-sp", ["--precision", "bf16"]),
]


@pytest.mark.parametrize("known", [True, False], ids=["measured", "builtin"])
@pytest.mark.parametrize("family, mesh, strategy, flags", CASES)
def test_a_symmetric_mesh_takes_what_was_predicted(
    tools, tmp_path, machine, family, mesh, strategy, flags, known
):
    profile = ["--machine-profile", machine] if known else []
    flags = ["--mesh", mesh, "--strategy", strategy, *profile, *flags]
    library, predicted = compile_model(tools, FAMILIES[family], tmp_path, *flags)
    for function, prediction in predicted.items():
        found = simulate(tools, library, "--function", function, *profile)
        commands = commands_of(tools, library, function)
        assert_alike(found, prediction, commands)
        assert len({rank["end_ms"] for rank in found["ranks"]}) == 1
        carries = "sync(next)" in flags and function == "train_step"
        assert ("carried" in found) == ("carried" in prediction) == carries
        if carries:
            near = pytest.approx(prediction["carried"], rel=1e-12, abs=0.5e-9 * commands)
            assert found["carried"] == near


def test_gathers_pass_behind_the_next_step(tools, tmp_path):
    """Where links take as long for them as forward computes: a step takes the less, as on
    hosts with such links (`bench/run cluster`). With microbatches `prepare`, which packs
    all weights, waits for most of them."""
    kinds = ["all_gather", "reduce_scatter", "all_reduce"]
    times = dict(backend="local", ranks=4, alpha_s=2e-6, beta_s_per_byte=5e-9)
    profile = tmp_path / "links.json"
    links = [dict(times, collective=kind) for kind in kinds]
    profile.write_text(json.dumps({**MACHINE, "comm": links}))
    named = ["--machine-profile", profile]
    steps = {}
    for name, sync in ("plain", []), ("carried", ["--sync", "sync(next)"]):
        flags = ["--mesh", "data:4", "--strategy", "data", "--accumulate", *named, *sync]
        (tmp_path / name).mkdir()
        library, schedule = compile_model(tools, MODEL, tmp_path / name, *flags)
        steps[name] = [
            simulate(tools, library, "--microbatches", count, *named) for count in ("1", "4")
        ]
    for plain, carried in zip(*steps.values()):
        assert "carried" not in plain
        assert carried["carried"]["count"] == 28
        gathers = carried["carried"]["ms"]
        for term in ("computing_ms", "comm_ms"):
            assert carried[term] == pytest.approx(plain[term], rel=1e-6)
        gained = plain["exposed_ms"] - carried["exposed_ms"]
        assert 0 < gained <= gathers
        assert plain["step_ms"] - carried["step_ms"] == pytest.approx(gained, rel=1e-3)
    step, microbatches = steps["carried"]
    assert step["carried"]["exposed_ms"] < 0.2 * step["carried"]["ms"]
    assert 1.1 * step["step_ms"] < steps["plain"][0]["step_ms"]
    found = microbatches["carried"]["exposed_ms"]
    waiting = [
        schedule[name].get("carried", {"exposed_ms": 0})["exposed_ms"]
        for name in ("prepare", "accumulate")
    ]
    assert found == pytest.approx(sum(waiting), rel=1e-4)
    assert waiting[0] > 0.5 * found
    assert schedule["update"]["carried"]["count"] == 28
    assert schedule["update"]["carried"]["exposed_ms"] == 0


def test_gpus_take_what_was_predicted(tools, tmp_path):
    flags = ["--target", "cuda", "--gpu-arch", "emulated", "--mesh", "row:2,col:2"]
    library, predicted = compile_model(tools, MODEL, tmp_path, *flags, "--strategy", "summa")
    for function, prediction in predicted.items():
        found = simulate(tools, library, "--function", function)
        assert found["machine_profile"] == "h100x8"
        assert_alike(found, prediction, commands_of(tools, library, function))


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa", "--accumulate")


def test_what_is_simulated_is_a_step_of_training(tools, library):
    step = simulate(tools, library)
    assert step["simulated"] == "train"
    call = simulate(tools, library, "--function", "train")
    assert call["simulated"] == "train_step"
    assert call["step_ms"] == step["step_ms"]
    tokens = MODEL.batch * MODEL.sequence
    assert step["tokens_per_s"] == pytest.approx(1e3 * tokens / step["step_ms"], rel=1e-9)


def test_microbatches_are_calls_without_a_barrier(tools, library):
    ends = [
        simulate(tools, library, "--microbatches", count)["step_ms"] for count in ("2", "3", "4")
    ]
    accumulate = simulate(tools, library, "--function", "accumulate")["step_ms"]
    for before, after in zip(ends, ends[1:]):
        assert after - before == pytest.approx(accumulate, abs=1e-6)


def test_a_late_rank_keeps_its_neighbours_waiting(tools, library):
    before, after = simulate(tools, library), simulate(tools, library, "--straggler", "3=2")
    assert after["what_if"] == ["rank 3 computes 2 times as long"]
    assert after["ranks"][3]["computing_ms"] == pytest.approx(2 * before["computing_ms"])
    assert after["ranks"][0]["computing_ms"] == pytest.approx(before["computing_ms"])
    assert before["step_ms"] < after["step_ms"] < 2 * before["step_ms"]
    assert sum(wait["late_ms"] for wait in after["waits"]) > 0 or after["slowest_rank"] == 3
    # The path lasts from the beginning to the end.
    path = sum(part["ms"] for part in after["critical_path"])
    assert path == pytest.approx(after["step_ms"], rel=1e-9)


def test_what_ifs_are_named_and_bounded(tools, library):
    plain = simulate(tools, library)
    none = simulate(tools, library, "--overlap", "none")
    perfect = simulate(tools, library, "--overlap", "perfect")
    assert perfect["step_ms"] <= plain["step_ms"] <= none["step_ms"]
    assert none["step_ms"] == pytest.approx(none["computing_ms"] + none["comm_ms"], rel=1e-9)
    assert perfect["computing_ms"] <= perfect["step_ms"]
    fast = simulate(tools, library, "--network", "bandwidth=1e6,latency=1e-6")
    assert fast["step_ms"] == pytest.approx(plain["computing_ms"], rel=1e-3)
    half = simulate(tools, library, "--scale", "gemm=0.5", "--scale", "launch=0.5")
    assert half["parts_ms"]["gemm"] == pytest.approx(plain["parts_ms"]["gemm"] / 2, rel=1e-6)
    # As much arithmetic in less time.
    done = half["utilisation"] * half["step_ms"]
    assert done == pytest.approx(plain["utilisation"] * plain["step_ms"], rel=1e-6)
    assert 0 < plain["utilisation"] < 1
    assert half["what_if"] == ["'gemm' takes 0.5 times as long", "'launch' takes 0.5 times as long"]
    text = tools.run("optimus-simulate", library, "--overlap", "none", "--scale", "h.0.*=2")
    assert "what if      'h.0.*' takes 2 times as long\n" in text
    assert "what if      nothing overlaps\n" in text
    assert "which no machine has" in text


def test_every_rank_is_drawn(tools, library):
    plain = simulate(tools, library)
    drawn = simulate(tools, library, "--straggler", "spread=0.2,seed=7")
    assert drawn == simulate(tools, library, "--straggler", "spread=0.2,seed=7")
    factors = [one["computing_ms"] / plain["computing_ms"] for one in drawn["ranks"]]
    assert len(set(factors)) == 4 and min(factors) < max(factors)
    assert all(0.2 < one < 5 for one in factors)
    other = simulate(tools, library, "--straggler", "spread=0.2,seed=8")
    assert other["step_ms"] != drawn["step_ms"] > plain["step_ms"] * min(factors)


def test_devices_change_and_links_stay(tools, tmp_path, library):
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps(MACHINE))
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps({**MACHINE, "gemm": [FAST], "comm": []}))
    flags = ["--machine-profile", machine]
    plain = simulate(tools, library, *flags)
    faster = simulate(tools, library, *flags, "--device", twice)
    alone = simulate(tools, library, "--machine-profile", twice)
    assert faster["parts_ms"] == alone["parts_ms"] != plain["parts_ms"]
    assert faster["comm_ms"] == plain["comm_ms"] != alone["comm_ms"]
    assert faster["what_if"] == [f"devices are those of {twice}"]


def test_scratch_files_have_a_price(tools, tmp_path):
    library, _ = compile_model(tools, MODEL, tmp_path, "--offload", "state")
    machine = tmp_path / "machine.json"

    def take(**scratch):
        machine.write_text(json.dumps({**MACHINE, "gemm": [{**COMPUTE, "cores": 1}], **scratch}))
        return simulate(tools, library, "--machine-profile", machine)

    rates = {"in_bytes_per_s": 1e9, "out_bytes_per_s": 5e8}
    memory, disk = take(), take(scratch=rates)
    assert disk["copies_ms"] > memory["copies_ms"]
    slower = take(scratch={**rates, "out_bytes_per_s": 5e7})
    state = state_of(tools, library)
    assert slower["step_ms"] - disk["step_ms"] == pytest.approx(1e3 * state * (1 / 5e7 - 1 / 5e8), rel=0.2)
    costly = take(scratch={**rates, "in_processor_s_per_byte": 1e-9})
    part = costly["parts_ms"]["processors of copies"]
    assert part == pytest.approx(1e3 * state * 1e-9, rel=0.1)
    machine.write_text(json.dumps({**MACHINE, "scratch": {"in_bytes_per_s": 0}}))
    error = refuse(tools, "optimus-simulate", library, "--machine-profile", machine)
    assert "scratch.in_bytes_per_s: expected" in error


def test_what_is_removed_takes_no_time(tools, tmp_path, library):
    plain = simulate(tools, library)
    without = simulate(tools, library, "--remove", "gemm")
    assert "gemm" in plain["parts_ms"] and "gemm" not in without["parts_ms"]
    assert without["what_if"] == ["'gemm' takes no time"]
    # Ranks still meet, and nothing moves.
    moved = [flag for wait in plain["waits"] for flag in ("--remove", wait["collective"])]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(CLUSTER))
    for flags in ([], ["--cluster", path]):
        alone = simulate(tools, library, *moved, *flags)
        assert alone["step_ms"] == pytest.approx(plain["computing_ms"], abs=1e-9)
        assert alone["comm_ms"] == 0


def test_changes_of_a_file_are_those_of_flags(tools, tmp_path, library):
    path = tmp_path / "changes"
    path.write_text(
        "# of the next machine\nscale gemm=0.5  # faster\n\nstraggler 3=2\n"
        "network bandwidth=2,latency=0.5\noverlap none\nremove h.0.ln*\n"
    )
    flags = ["--straggler", "3=2", "--scale", "gemm=0.5", "--remove", "h.0.ln*"]
    flags += ["--network", "bandwidth=2,latency=0.5", "--overlap", "none"]
    from_file = simulate(tools, library, "--what-if", path)
    assert len(from_file["what_if"]) == 6
    assert from_file == simulate(tools, library, *flags)
    # Together with a flag.
    both = simulate(tools, library, "--what-if", path, "--straggler", "3=2")
    assert both["step_ms"] > from_file["step_ms"]
    for line, message in [
        ("\nscale gem=2", f"{path}:2: no command of "),
        ("remove gem", "matches 'gem'; did you mean 'gemm'?"),
        ("\nscal gemm=2", f"{path}:2: expected straggler, scale, remove, insert, fuse, bucket"),
        ("precision bf16", f"{path}:1: a precision is compiled: --try '--precision bf16'"),
        ("insert gemm=20", f"{path}:1: expected a time from 1ns to 3600s"),
        ("fuse gemm", f"{path}:1: no two kernels in a row of "),
        ("scale rank=4/gemm=2", f"{path}:1: expected a rank from 0 to 3, found '4'"),
        ("overlap som", f"{path}:1: expected scheduled, none or perfect, found 'som'"),
        ("straggler", f"{path}:1: expected RANK=FACTOR, found ''"),
        ("remove", f"{path}:1: expected GLOB, found ''"),
        ("network latency=1e6\n" * 2, f"{path}:2: expected factors whose product is from 1e-06"),
        ("straggler 1=1e6\n" * 2, f"{path}:2: expected factors whose product is from 1e-06"),
        ("scale gemm=1e6\n" * 4, "expected times of at most a day"),
    ]:
        path.write_text(line)
        assert message in refuse(tools, "optimus-simulate", library, "--what-if", path)


def test_what_is_inserted_and_fused(tools, library):
    plain = simulate(tools, library)
    more = simulate(tools, library, "--insert", "gemm=1us")
    gemms = sum(command["by"] == "gemm" for command in slack_of(tools, library))
    assert more["parts_ms"]["inserted"] == pytest.approx(1e-3 * gemms)
    assert more["what_if"] == ["0.001 ms are computed before 'gemm'"]
    late = simulate(tools, library, "--insert", "rank=3/h.0.*=1ms")
    assert late["ranks"][3]["computing_ms"] > late["ranks"][0]["computing_ms"] + 1
    assert late["ranks"][0]["exposed_ms"] > plain["ranks"][0]["exposed_ms"] + 1
    fused = simulate(tools, library, "--fuse", "*")
    assert fused["parts_ms"]["launch"] < plain["parts_ms"]["launch"]
    assert fused["parts_ms"]["gemm"] == plain["parts_ms"]["gemm"]
    assert fused["what_if"] == ["neighbours among '*' are one kernel"]
    # A part that is no command has no rate.
    gains = simulate(tools, library, "--insert", "gemm=1us", "--sensitivity")["gains"]
    assert "inserted" not in {gain["of"] for gain in gains}


def test_the_interval_is_of_the_formulas(tools, tmp_path, library):
    """Of a profile with points: wider where they are farther from each other."""
    path = tmp_path / "machine.json"

    def ask(factor, *flags):
        """With the second of two products so many times as slow as the first."""
        points = [
            {"m": size, "n": size, "k": size, "seconds": 2e-6 + factor**i * 2 * size**3 / 5e10}
            for i, size in enumerate((32, 64))
        ]
        path.write_text(json.dumps({**MACHINE, "gemm": [{**COMPUTE, "points": points}]}))
        answer = simulate(tools, library, "--machine-profile", path, "--interval", *flags)
        interval = answer["interval"]
        assert interval["low_ms"] < answer["step_ms"] < interval["high_ms"]
        return answer, interval

    answer, near = ask(1.1)
    _, far = ask(10)
    width = lambda one: one["high_ms"] - one["low_ms"]
    assert width(far) > 3 * width(near)
    # Nothing was timed of collectives between sizes.
    assert "gemm" not in near["without"] and "launch" not in near["without"]
    assert {wait["collective"] for wait in answer["waits"]} <= set(near["without"])
    text = tools.run("optimus-simulate", library, "--machine-profile", path, "--interval")
    assert "ms (90 %), by residuals of formulas; nothing is known of " in text
    assert "with measured points" in refuse(tools, "optimus-simulate", library, "--interval")


def slack_of(tools, library, *flags):
    return simulate(tools, library, "--slack", *flags)["slack"]


@pytest.mark.parametrize("flags", [[], ["--offload", "state"]], ids=["", "offload"])
def test_nothing_on_the_critical_path_has_slack(tools, flags):
    library = tools.library(MODEL, "row:2,col:2", "summa", "--accumulate", *flags)
    answer = simulate(tools, library, "--slack", "--cluster", "h100")
    slack = answer["slack"]
    assert min(one["slack_ms"] for one in slack) == 0
    least = {}
    for one in slack:
        key = one["path"] or one["by"]
        least[key] = min(one["slack_ms"], least.get(key, one["slack_ms"]))
    # Copies between memories are not on it.
    assert flags or all(least[part["path"]] == 0 for part in answer["critical_path"])
    assert any(value > 0 for value in least.values())
    text = tools.run("optimus-simulate", library, "--slack", "--cluster", "h100")
    assert "may be later" in text


def test_more_of_each_rate_gives_what_a_change_gives(tools, library):
    plain = simulate(tools, library)
    assert "gains" not in plain
    gains = {gain["of"]: gain["ms"] for gain in simulate(tools, library, "--sensitivity")["gains"]}
    assert list(gains.values()) == sorted(gains.values(), reverse=True)
    assert set(plain["parts_ms"]) | {wait["collective"] for wait in plain["waits"]} < set(gains)
    faster = simulate(tools, library, "--scale", f"gemm={1 / 1.01}")
    assert gains["gemm"] == pytest.approx(plain["step_ms"] - faster["step_ms"], abs=1e-9)
    faster = simulate(tools, library, "--network", "bandwidth=1.01")
    assert gains["bandwidth of links"] == pytest.approx(
        plain["step_ms"] - faster["step_ms"], abs=1e-9
    )
    assert gains["all computing"] >= gains["gemm"] > 0
    text = tools.run("optimus-simulate", library, "--sensitivity")
    assert "all computing" in text.split("1 % more of")[1]


def test_failures_leave_a_part_of_the_time(tools, library):
    plain = simulate(tools, library)
    times = "mtbf=3.1h,checkpoint=5s,restart=5min"
    answer = simulate(tools, library, "--fail", times)
    failures = answer["failures"]
    assert failures["interval_s"] == pytest.approx((2 * 5 * 11160) ** 0.5, rel=0.05)
    assert failures["tokens_per_s"] == pytest.approx(failures["share"] * plain["tokens_per_s"])
    assert answer["step_ms"] == plain["step_ms"]
    text = tools.run("optimus-simulate", library, "--fail", times)
    assert f"failures     leave {100 * failures['share']:.1f} % of the time" in text
    assert "what if      the job fails every 11160 s on average" in text


def test_tries_are_plans_of_one_program(tools, tmp_path):
    """Each answer is the library's, the terms explain all of a step, and memory is the
    compiler's."""
    program = tools.program(MODEL)
    tries = [
        "--mesh row:2,col:2 --strategy summa",
        "--mesh row:1,col:4 --strategy megatron-sp --recompute=layer",
        "--mesh 'row:1,col:2' --strategy megatron --target cuda --gpu-arch emulated",
    ]
    flags = [word for one in tries[:2] for word in ("--try", one)]
    answer = simulate(tools, program, *flags)
    for flags_of, found in zip(tries, answer["tries"]):
        library, _ = compile_model(tools, MODEL, tmp_path, *flags_of.split())
        own = simulate(tools, library)
        assert found["flags"] == flags_of
        for name in ("step_ms", "parts_ms", "waits", "memory_bytes", "ranks"):
            assert found[name] == own[name], name
        report = tools.run(
            *("optimus-compile", program, *flags_of.split(), "--compile-to=place"),
            *("-o", tmp_path / "placed.mlir", "--report-json", "-"),
        )
        assert found["memory_bytes"] == json.loads(report)["memory"]["train_step"]
    for unit, whole in [
        ("ms", lambda one: one["step_ms"]),
        ("bytes", lambda one: one["memory_bytes"]["total"]),
    ]:
        terms = [term["of_each"] for term in answer["terms"] if term["unit"] == unit]
        for plan, found in enumerate(answer["tries"]):
            assert sum(term[plan] for term in terms) == pytest.approx(whole(found), rel=1e-9)
    text = tools.run("optimus-simulate", program, *flags, "--sensitivity")
    assert "\n2 against 1\n  step    " in text and " waiting for " in text
    gains = [line.split() for line in text.split("1 % more of")[1].splitlines()]
    assert gains[0] == ["saves", "1,", "ms", "saves", "2,", "ms"]
    [gemm] = [line[1:] for line in gains if line[0] == "gemm"]
    assert all(float(saved) > 0 for saved in gemm)
    # What one of them lacks.
    assert any("-" in line for line in gains)
    gpu = simulate(tools, program, "--try", tries[2])["tries"][0]
    assert gpu["target"] == "cuda" and gpu["machine_profile"] == "h100x8"
    for wrong, message in [
        ("--mesh row:2,col:2 --strategy suma", "unknown strategy 'suma'"),
        ("-o other.so", "--try: expected no -o in '-o other.so'"),
    ]:
        error = refuse(tools, "optimus-simulate", program, "--try", wrong)
        assert error.startswith("optimus-simulate: error: ") and message in error


def test_a_profile_is_of_what_was_simulated(tools, tmp_path, library):
    """The file of a run, with the times of the answer: one rank for those alike."""
    profile = tmp_path / "simulated.profile"
    found = simulate(tools, library, "--straggler", "3=2", "--profile", profile)
    with contextlib.closing(sqlite3.connect(profile)) as database:
        ask = lambda text: database.execute(text).fetchall()
        ranks = [rank for (rank,) in ask("SELECT rank FROM ranks ORDER BY rank")]
        assert ranks == [0, 1, 2, 3]
        assert dict(ask("SELECT * FROM trace"))["backend"] == "simulated"
        for rank in ranks:
            [(end,)] = ask(f"SELECT max(end) FROM calls WHERE rank = {rank}")
            assert end == pytest.approx(1e6 * found["ranks"][rank]["end_ms"], abs=1)
            kinds = dict(
                ask(
                    "SELECT kind, sum(times.end - times.begin) FROM times "
                    "JOIN calls USING (call) JOIN commands USING (function, command) "
                    f"WHERE rank = {rank} GROUP BY kind"
                )
            )
            computing = sum(kinds.get(kind, 0) for kind in found["parts_ms"])
            commands = commands_of(tools, library, "train_step")
            assert computing == pytest.approx(
                1e6 * found["ranks"][rank]["computing_ms"], abs=commands
            )
        # What is in flight ends where its wait does, or before.
        late = ask(
            "SELECT count(*) FROM transfers JOIN calls USING (call) "
            "JOIN commands ON commands.function = calls.function "
            "AND waits_for = transfers.command JOIN times ON times.call = calls.call "
            "AND times.command = commands.command WHERE transfers.end > times.end"
        )
        assert late == [(0,)] and ask("SELECT count(*) FROM transfers")[0][0] > 0
    simulate(tools, library, "--profile", profile)
    with contextlib.closing(sqlite3.connect(profile)) as database:
        assert database.execute("SELECT rank FROM ranks").fetchall() == [(0,)]
    # Reports and the compiler take it like a real one.
    report = tools.call("optimus-report", "--help")
    assert report.returncode == 0
    assert "one library" in refuse(
        tools, "optimus-simulate", library, "--try", "--report", "--profile", profile
    )


def test_the_answer_is_the_same_each_time(tools, library):
    flags = ("--straggler", "1=1.3", "--microbatches", "3", "--json", "-")
    answers = {tools.run("optimus-simulate", library, *flags) for _ in range(3)}
    assert len(answers) == 1


def test_64_ranks_take_less_than_a_second(tools, tmp_path):
    """Of a processor's time."""
    model = Model(layers=4, hidden=128, heads=8, sequence=16, vocabulary=256, batch=64)
    flags = ["--mesh", "row:8,col:8", "--strategy", "summa"]
    library, predicted = compile_model(tools, model, tmp_path, *flags)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = simulate(tools, library)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert found["step_ms"] == pytest.approx(predicted["train_step"]["predicted_step_ms"])


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--straggler", "4=2"], "--straggler: expected a rank from 0 to 3, found '4'"),
        (["--straggler", "1"], "--straggler: expected RANK=FACTOR, found '1'"),
        (["--scale", "gem=2"], "matches 'gem'; did you mean 'gemm'?"),
        (["--network", "bandwith=2"], "did you mean 'bandwidth'?"),
        (["--remove", "gem"], "--remove: no command of "),
        (["--insert", "gemm=2h"], "--insert: expected a time from 1ns to 3600s"),
        (["--fuse", "gemm"], "--fuse: no two kernels in a row of "),
        (["--bucket", "gemm=1MiB"], "--bucket: no two collectives in a row of "),
        (["--priority", "gemm"], "--priority: no collective of "),
        (["--bucket", "reduce=1"], "--bucket: expected a size from 1B to 1024GiB"),
        (["--slack", "--overlap", "perfect"], "expected no overlap perfect beside it"),
        (["--fail", "mtbf=3"], "--fail: expected a time from 1e-3s to 1000 years"),
        (["--what-if", "nowhere"], "--what-if: "),
        (["--overlap", "som"], "expected scheduled, none or perfect, found som"),
        (["--function", "trian"], "--function: "),
        (["--sequence", "trian"], "has no sequence `trian`; did you mean `train`?"),
        (["--sequence", "train", "--function", "train"], "--sequence"),
        (["--microbatches", "0"], "expected a whole number from 1 to 65536"),
        (["--machine-profile", "h100x8"], "is of GPUs, expected one of processors"),
        (["--machine-profile", "h10"], "did you mean 'h100'?"),
        (["--json", "nowhere/answer.json"], "nowhere"),
        (["--strangler", "1=2"], "did you mean '--straggler'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(tools, library, flags, message):
    error = refuse(tools, "optimus-simulate", library, *flags)
    assert error.startswith("optimus-simulate: error: ")
    assert message in error
    assert error.count("error: ") == 1


def test_files_that_are_no_library(tools, tmp_path, library):
    for name, text in [("text.so", b"text"), ("half.so", library.read_bytes()[:5000])]:
        (tmp_path / name).write_bytes(text)
        assert name in refuse(tools, "optimus-simulate", tmp_path / name)
    profile = tmp_path / "profile.json"
    for text, words in [
        ('{"version": 1, "gemm": [{"alpha_s": 1e999}]}', "': gemm[0].alpha_s: "),
        ("[" * 1000, "more than 64 deep"),
        ('{"version": 1', "not valid JSON"),
    ]:
        profile.write_text(text)
        error = refuse(tools, "optimus-simulate", library, "--machine-profile", profile)
        assert words in error and "profile.json" in error
    cluster = tmp_path / "cluster.json"
    for change, words in [
        ({"nodes": {"devices": 2, "cards": 1}}, "nothing is known of 'cards'"),
        ({"nic": {"bytes_per_s": -1, "latency_s": 0}}, "': nic.bytes_per_s: expected"),
        ({"placement": {"tile": {"rwo": 2}}}, "a tile that divides row:2,col:2, found rwo:2"),
    ]:
        cluster.write_text(json.dumps({**CLUSTER, **change}))
        assert words in refuse(tools, "optimus-simulate", library, "--cluster", cluster)
    assert "did you mean 'h100'?" in refuse(
        tools, "optimus-simulate", library, "--cluster", "h10"
    )
    same = refuse(tools, "optimus-simulate", library, "--json", library)
    assert "same file" in same
