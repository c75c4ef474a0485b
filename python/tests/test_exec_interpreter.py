# ===- test_exec_interpreter.py - Device programs, interpreted -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The interpreter of `exec` against that of `ccl`, and planted bugs for it to find.

After each phase from `exec` on, programs run clean on poisoned memory and give
what the partitioned program gives. Then a possible bug of the lowering, the schedule,
the placement or the order is planted in their output; it parses, and the interpreter
finds it, by what it does to memory or by wrong results.
"""

import re
from typing import Callable, List, NamedTuple

import numpy as np
import pytest

from interpreter import draw_batch, draw_parameters
from test_mutations import Lines
from tools import BertModel, LlamaModel, Model

GPT2 = Model(layers=1, hidden=12, heads=3, sequence=8, vocabulary=20, batch=4)
BERT = BertModel(layers=1, hidden=12, heads=3, sequence=8, vocabulary=20, batch=4)
LLAMA = LlamaModel(
    layers=1, hidden=12, heads=6, kv_heads=3, ffn=20, sequence=8, vocabulary=20, batch=4
)

CASES = [
    *[(model, None, "serial") for model in (GPT2, BERT, LLAMA)],
    *[(model, "row:2,col:2", "summa") for model in (GPT2, BERT, LLAMA)],
    *[(model, "row:2,col:3", "summa") for model in (GPT2, LLAMA)],
    *[(model, "row:1,col:4", "megatron") for model in (GPT2, BERT, LLAMA)],
    (GPT2, "row:2,col:2", "megatron"),
]
PHASES = ["exec", "schedule", "place"]
REFERENCE = "fuse"


@pytest.fixture(scope="module")
def phases(tools, tmp_path_factory):
    """The folder with all phases of a compilation and the arguments."""
    known = {}

    def compile_all(model, mesh, strategy, *flags):
        # As tuples, models of two kinds are equal.
        key = (model.KIND, model, mesh, strategy, flags)
        if key not in known:
            folder = known[key] = tmp_path_factory.mktemp("phases")
            tools.run(
                *("optimus-compile", tools.program(model), "--strategy", strategy),
                *(["--mesh", mesh] if mesh else []),
                *("--dump-phases-to", folder, "--compile-to=place", *flags),
                *("-o", folder / "last.mlir"),
            )
            arguments = folder / "arguments"
            arguments.mkdir()
            for name, value in draw_parameters(model).items():
                np.save(arguments / (name + ".npy"), value.astype(np.float32))
            for name, value in draw_batch(model)._asdict().items():
                np.save(arguments / (name + ".npy"), value.astype(np.int32))
            random = np.random.default_rng(5)
            for name, shape in model.parameter_shapes():
                moment = random.normal(0, 0.1, shape).astype(np.float32)
                np.save(arguments / ("exp_avg:%s.npy" % name), moment)
                np.save(arguments / ("exp_avg_sq:%s.npy" % name), moment**2)
        return known[key]

    return compile_all


def path_of(folder, phase):
    (path,) = folder.glob("*-%s.mlir" % phase)
    return path


def interpret(tools, folder, program, function="grad_step", *flags):
    return tools.call(
        *("optimus-interpret", program, "--function", function),
        *("--inputs", folder / "arguments", *flags),
        *("--against", path_of(folder, REFERENCE)),
    )


@pytest.mark.variants
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    "model, mesh, strategy",
    CASES,
    ids=lambda part: part.KIND if hasattr(part, "KIND") else part,
)
def test_agrees_with_ccl(tools, phases, model, mesh, strategy, phase):
    folder = phases(model, mesh, strategy)
    result = interpret(tools, folder, path_of(folder, phase))
    assert result.returncode == 0, result.stdout + result.stderr
    compared = result.stdout.count(" from the reference")
    # Each parameter's gradient, the loss and the count of real tokens.
    assert compared == len(list(model.parameter_shapes())) + 2


@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, panels",
    [
        ("row:2,col:3", 1),
        ("row:2,col:3", 2),
        ("row:1,col:4", 3),
        pytest.param("row:3,col:2", 4, marks=pytest.mark.long),
        pytest.param("row:4,col:1", 2, marks=pytest.mark.long),
        pytest.param("row:2,col:2", 1, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("model", [GPT2, LLAMA], ids=lambda model: model.KIND)
def test_panels_of_slices_agree(tools, phases, model, mesh, panels):
    """Panels that have a slice of every rank's part: fewer than blocks, or another
    number than their multiples."""
    folder = phases(model, mesh, "summa", "--panels", panels)
    program = path_of(folder, "place")
    assert re.search(r"collective_start +all_gather", program.read_text())
    result = interpret(tools, folder, program)
    assert result.returncode == 0, result.stdout + result.stderr


# Two layers, so that buffers of one lie where those of the other lay.
DEEP = [model._replace(layers=2) for model in (GPT2, BERT, LLAMA)]


@pytest.mark.long
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize(
    "mesh, strategy",
    [
        ("row:2,col:3", "summa"),
        ("row:3,col:2", "summa"),
        ("row:4,col:1", "summa"),
        ("row:2,col:2", "summa-paper"),
        ("row:1,col:2", "megatron-sp"),
        ("data:2,row:1,col:2", "summa"),
        ("data:2", "data"),
    ],
)
@pytest.mark.parametrize("model", DEEP, ids=lambda model: model.KIND)
def test_agrees_with_ccl_in_two_layers(tools, phases, model, mesh, strategy, precision):
    folder = phases(model, mesh, strategy, "--precision", precision)
    result = interpret(tools, folder, path_of(folder, "place"))
    assert result.returncode == 0, result.stdout + result.stderr


def scalars_of(function):
    """Of an optimizer whose epsilon keeps noise in tiny gradients small."""
    if function not in ("train_step", "update"):
        return []
    scalars = dict(lr=0.01, weight_decay=0.1, clip=1, beta1=0.9, beta2=0.95)
    scalars.update(epsilon=0.1, beta1_power=0.9, beta2_power=0.95)
    return [f for name, value in scalars.items() for f in ("--set", "%s=%s" % (name, value))]


@pytest.mark.parametrize("function", ["train_step", "eval_step", "accumulate", "update"])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_all_functions_agree(tools, phases, precision, function):
    """Microbatches and the optimizer, too."""
    flags = ["--accumulate", "--precision", precision]
    folder = phases(GPT2, "row:2,col:2", "summa", *flags)
    program, draw = path_of(folder, "place"), ["--draw", GPT2.vocabulary]
    result = interpret(tools, folder, program, function, *draw, *scalars_of(function))
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_is_carried_agrees(tools, phases, tmp_path):
    """With the program that waits for its gathers, to the bit."""
    found = []
    for flags in [], ["--sync", "sync(next)"]:
        folder, outputs = phases(GPT2, "data:2", "data", *flags), tmp_path / str(len(flags))
        program = path_of(folder, "place")
        assert ("exec.wait_carried" in program.read_text()) == bool(flags)
        tools.run(
            *("optimus-interpret", program, "--function", "train_step"),
            *("--inputs", folder / "arguments", "--outputs", outputs),
            *("--draw", GPT2.vocabulary, *scalars_of("train_step")),
        )
        found.append({path.name: path.read_bytes() for path in outputs.iterdir()})
    assert found[0].items() <= found[1].items()
    assert len(found[0]) == 3 * len(list(GPT2.parameter_shapes())) + 3


def swap(lines: Lines, number: int, pattern: str) -> None:
    """Exchanges the two groups of a pattern in a line."""
    found = re.search(pattern, lines[number])
    (begin, end), (start, stop) = found.span(1), found.span(2)
    line = lines[number]
    lines[number] = line[:begin] + found[2] + line[end:start] + found[1] + line[stop:]


BROADCAST = r"collective_start *broadcast .*over \"%s\""
ROOT = r"root = 1 : i64, "


def wrong_root(lines: Lines) -> None:
    """A panel of a weight comes from another rank than its owner, who receives it."""
    lines.edit(lines.find(BROADCAST % "row" + ".*root = 1"), ROOT, "")


def wrong_owner(lines: Lines) -> None:
    """The same, and everybody takes that rank for the owner."""
    at = lines.find(BROADCAST % "row" + ".*root = 1")
    lines.edit(at, ROOT, "")
    lines.edit(at - 1, 'select_rank "row" is 1', 'select_rank "row" is 0')


def panels_out_of_order(lines: Lines) -> None:
    """The panels of one factor come in another order than those of the other."""
    first, second = (lines.find(BROADCAST % "col", number) for number in range(2))
    lines.edit(first - 1, 'select_rank "col" is 0', 'select_rank "col" is 1')
    lines.edit(first, "src_ld", ROOT + "src_ld")
    lines.edit(second - 1, 'select_rank "col" is 1', 'select_rank "col" is 0')
    lines.edit(second, ROOT, "")


def same_panel_twice(lines: Lines) -> None:
    at = lines.find("exec.gemm .*{accumulate")
    panel = re.search(r"exec.gemm (%\w+),", lines[lines.find("exec.gemm")])[1]
    lines.edit(at, r"exec.gemm %\w+,", "exec.gemm %s," % panel)


def swapped_operands(lines: Lines) -> None:
    """The means for the deviations, and these for the means."""
    at = lines.find("exec.launch @normalize")
    swap(lines, at, r"read %\w+ : \S+, read (%\w+) : \S+, read (%\w+) :")


def wrong_epilogue(lines: Lines) -> None:
    """The residual is multiplied by instead of added."""
    lines.edit(lines.find("epilogue add"), "epilogue add", "epilogue mul")


def slice_off_by_one(lines: Lines) -> None:
    """Values of attention begin one element early."""
    lines.edit(lines.find(r"exec.slice %\w+\[16\]"), r"\[16\]", "[15]")


def dropped_zero_fill(lines: Lines) -> None:
    """Of the gradient of a table, only the rows that tokens name are written."""
    del lines[lines.find(r"exec.copy %\w+ \{")]


def part_of_another_rank(lines: Lines) -> None:
    """Tokens are looked up in the part of the table that another rank has."""
    lines.edit(lines.find("exec.part_offset"), r"\[\"col\"\]", '["row"]')


def late_wait(lines: Lines) -> None:
    """A panel is multiplied, and then it is waited for."""
    gemm = lines.find("exec.gemm")
    wait = max(i for i in range(gemm) if "exec.wait" in lines[i])
    lines.insert(gemm, lines.pop(wait))


def missing_edge(lines: Lines) -> None:
    """A collective does not wait for what makes its source."""
    lines.edit(lines.find(BROADCAST % "col"), r"after = array<i32: \d+>, ", "")


def early_reuse(lines: Lines) -> None:
    """What is read again later gives its memory away."""
    kept = lines.find(r"exec.arena_slot .*\"h.0.attn.sum:0\"")
    offset = re.search(r"arena_slot (%\w+\[\d+\])", lines[kept])[1]
    taken = lines.find(r"exec.arena_slot .*\[\"h.0.ln_2:0\"\]")
    lines.edit(taken, r"arena_slot %\w+\[\d+\]", "arena_slot " + offset)


def stale_panel(lines: Lines) -> None:
    """A product reads the panel of an earlier one, whose memory others have now."""
    first = lines.find("exec.gemm")
    pattern = r"exec.gemm (%\w+),.*\} : (memref<\w+>)"
    panel = re.search(pattern, lines[first])
    alike = [
        at
        for at, line in enumerate(lines)
        if (found := re.search(pattern, line)) and found[2] == panel[2]
    ]
    # As late as can be: nobody leaves memory idle for so long.
    assert alike[-1] > first
    lines.edit(alike[-1], r"exec.gemm %\w+,", "exec.gemm %s," % panel[1])


class Bug(NamedTuple):
    plant: Callable[[Lines], None]
    phase: str
    found: str
    model: object = GPT2
    mesh: object = "row:2,col:2"
    strategy: str = "summa"


UNWRITTEN = r"leaves element \d+ of argument grad:bert.embeddings.token_type_embeddings.weight unwritten"
READ_ONLY = "of argument h.0.attn.c_attn.weight, which the function may only read"
UNORDERED = "without waiting for its writer, command "
STALE = "written last as the buffer of "
RESULTS = r"--against: element \d+ of result "

BUGS: List[Bug] = [
    Bug(wrong_root, "exec", READ_ONLY),
    Bug(wrong_owner, "exec", RESULTS),
    Bug(panels_out_of_order, "exec", RESULTS),
    Bug(same_panel_twice, "exec", RESULTS),
    Bug(swapped_operands, "exec", RESULTS),
    Bug(wrong_epilogue, "exec", RESULTS, GPT2, None, "serial"),
    Bug(slice_off_by_one, "exec", RESULTS),
    Bug(dropped_zero_fill, "exec", UNWRITTEN, BERT, None, "serial"),
    Bug(part_of_another_rank, "exec", RESULTS),
    Bug(late_wait, "schedule", UNORDERED),
    Bug(missing_edge, "place", UNORDERED),
    Bug(early_reuse, "place", STALE),
    Bug(stale_panel, "place", STALE),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_bug_is_found(tools, phases, tmp_path, bug):
    folder = phases(bug.model, bug.mesh, bug.strategy)
    all_lines = path_of(folder, bug.phase).read_text().split("\n")
    begin = next(i for i, line in enumerate(all_lines) if "func.func @grad_step" in line)
    end = next(i for i in range(begin, len(all_lines)) if re.match(r"  \} loc\(|  \}$", all_lines[i]))
    lines = Lines(all_lines[begin + 1 : end])
    bug.plant(lines)
    assert lines != all_lines[begin + 1 : end]
    program = tmp_path / "program.mlir"
    program.write_text("\n".join([*all_lines[: begin + 1], *lines, *all_lines[end:]]))
    result = interpret(tools, folder, program)
    assert result.returncode == 1, result.stdout
    assert re.search(bug.found, result.stderr), result.stderr
    if bug.found in (UNORDERED, STALE):
        # Both commands, by path.
        assert len(re.findall(r"command \d+, exec.\w+ of h\.0\.", result.stderr)) == 2
