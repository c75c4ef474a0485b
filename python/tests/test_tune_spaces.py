# ===- test_tune_spaces.py - What a search may choose -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Domains, spaces and the mistakes of specifications; nothing runs."""

import itertools
import math
import random
import statistics

import pytest

from optimus.tune import TuneError, domains, names, spaces, spec
from optimus.tune.formulas import Formula
from optimus.tune.samplers import RandomChooser, RandomSampler

SPEC = """\
[study]
objectives = ["loss"]

[model]
name = "gpt2"
hidden = 32

[train]
data = "text.txt"
steps = 3
"""


@pytest.fixture(autouse=True)
def flags(monkeypatch):
    """Those of a build are tested in test_tune.py."""
    known = {
        "model": {
            "name",
            "folder",
            "hidden",
            "heads",
            "layers",
            "ffn",
            "kv-heads",
            "dropout",
        },
        "compile": {"strategy", "mesh", "optimizer"},
        "train": {"data", "eval-data", "steps", "lr", "warmup", "clip"},
    }
    monkeypatch.setattr(names, "known", lambda group: frozenset(known[group]))


def draws(domain, count=2000):
    return [
        domains.parse(domain).draw(RandomChooser(1, each), "x") for each in range(count)
    ]


@pytest.mark.parametrize(
    "domain, low, high, middle",
    [
        ({"uniform": [2, 4]}, 2, 4, 3),
        ({"log-uniform": [1e-4, 1e-2]}, 1e-4, 1e-2, 1e-3),
        ({"ln-uniform": [0, 2]}, 1, math.e**2, math.e),
        ({"log2-uniform": [1, 3]}, 2, 8, 4),
        ({"log10-uniform": [-4, -2]}, 1e-4, 1e-2, 1e-3),
    ],
)
def test_real_numbers(domain, low, high, middle):
    found = draws(domain)
    assert all(low <= each <= high for each in found)
    # The median of 2000 is within 5 deviations of it, 1/(2√2000) of the range each.
    share = sum(each < middle for each in found) / len(found)
    assert abs(share - 0.5) < 5 / (2 * math.sqrt(len(found)))


@pytest.mark.parametrize(
    "domain, back",
    [
        ({"normal": [3, 2]}, float),
        ({"ln-normal": [3, 2]}, math.log),
        ({"log2-normal": [3, 2]}, math.log2),
        ({"log10-normal": [3, 2]}, math.log10),
    ],
)
def test_normal_numbers(domain, back):
    found = [back(each) for each in draws(domain)]
    # Within 5 standard errors.
    assert abs(statistics.mean(found) - 3) < 5 * 2 / math.sqrt(len(found))
    assert abs(statistics.stdev(found) - 2) < 5 * 2 / math.sqrt(2 * len(found))


def test_whole_numbers_and_lists():
    assert set(draws({"randint": [1, 3]})) == {1, 2, 3}
    assert set(draws({"randint": [8, 31], "step": 8})) == {8, 16, 24}
    assert set(draws({"choice": ["a", 2, True]})) == {"a", 2, True}
    assert set(draws({"sequential": [{"choice": [1, 2]}, 7, {"choice": ["a", "b"]}]})) == {
        "1,7,a",
        "1,7,b",
        "2,7,a",
        "2,7,b",
    }
    # Of all lengths, the longest one too.
    assert set(draws({"repeat": {"choice": ["x", "y"]}, "most": 3})) == {
        ",".join(each) for n in (1, 2, 3) for each in itertools.product("xy", repeat=n)
    }
    assert set(draws({"repeat": 1, "least": 2, "most": 3})) == {"1,1", "1,1,1"}


def test_a_value_depends_on_seed_number_and_name_alone():
    one, other = domains.parse({"uniform": [0, 1]}), domains.parse({"randint": [0, 9]})
    first = one.draw(RandomChooser(5, 3), "a")
    assert first == one.draw(RandomChooser(5, 3), "a")
    chooser = RandomChooser(5, 3)
    other.draw(chooser, "b")
    assert one.draw(chooser, "a") == first
    assert (
        len(
            {one.draw(RandomChooser(s, n), x) for s in (5, 6) for n in (3, 4) for x in "ab"}
        )
        == 8
    )


def read(tmp_path, text):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    return spec.read(str(path))


def test_lanes_are_asked_for(tmp_path):
    assert read(tmp_path, SPEC).lanes == "off"
    assert read(tmp_path, SPEC + "[pool]\n").lanes == "off"
    assert read(tmp_path, SPEC + '[pool]\nlanes = "auto"\n').lanes == "auto"


def test_exhaustive_domains_go_round_all_combinations(tmp_path):
    found = read(
        tmp_path, SPEC + "clip = {exhaustive = [1, 2, 3]}\nlr = {exhaustive = [0.1, 0.2]}\n"
    )
    sampler = RandomSampler(found.space, 0)
    points = [sampler.ask(each, {}).values for each in range(6)]
    assert {(each["train.clip"], each["train.lr"]) for each in points} == set(
        itertools.product([1, 2, 3], [0.1, 0.2])
    )


FOREST = SPEC + """\
[exclusive.family.gpt.model]
layers = {randint = [1, 2]}
[exclusive.family.llama.model]
ffn = {dependent = "4 * model.hidden"}
[exclusive.family.llama.optional.groups.model]
kv-heads = 1
[optional.drop.model]
dropout = {uniform = [0.1, 0.3]}
"""


def test_a_forest_is_walked_and_a_trial_carries_its_space(tmp_path):
    space = read(tmp_path, FOREST).space
    expected = {"family=gpt drop=without", "family=gpt drop=with"} | {
        "family=llama groups=%s drop=%s" % each
        for each in itertools.product(("without", "with"), repeat=2)
    }
    assert sorted(spaces.labels(space)) == sorted(expected)
    drawn = [RandomSampler(space, 3).ask(each, {}) for each in range(100)]
    assert {each.space for each in drawn} == expected
    for each in drawn:
        assert ("model.dropout" in each.values) == ("drop=with " in each.space + " ")
        assert ("model.kv-heads" in each.values) == ("groups=with " in each.space + " ")
        assert ("model.layers" in each.values) == ("family=gpt" in each.space)
        if "family=llama" in each.space:
            assert each.values["model.ffn"] == 128


def test_a_label_fixes_the_space(tmp_path):
    space = read(tmp_path, FOREST).space
    labels = list(spaces.labels(space))
    shares = {label: spaces.share(space, label) for label in labels}
    assert sum(shares.values()) == 1
    assert shares["family=gpt drop=with"] == 2 * shares["family=llama groups=with drop=with"]
    for label in labels:
        drawn = RandomSampler(space, 3).ask(0, {}, label)
        assert drawn.space == label
        assert set(drawn.values) == {leaf.name for leaf in spaces.leaves(space, label)}
    label = spaces.draw_label(space, random.Random(0))
    assert label in labels
    assert spaces.choices(space, "family=llama groups=with drop=with") == {
        "family": "llama",
        "family=llama/groups": "with",
        "drop": "with",
    }
    with pytest.raises(TuneError, match="expected the label of a space, found 'drop=with'"):
        spaces.share(space, "drop=with")


def test_a_forest_of_exponential_size_is_not_walked(tmp_path):
    text = SPEC + "".join("[optional.o%d]\n" % each for each in range(60))
    space = read(tmp_path, text).space
    assert len(list(itertools.islice(spaces.labels(space), 1000))) == 1000
    assert RandomSampler(space, 0).ask(0, {}).space.count("=") == 60


def test_values_follow_from_others(tmp_path):
    text = SPEC + 'warmup = {dependent = "max(1, train.steps // 2)"}\n'
    text += 'lr = {dependent = "train.warmup * model.hidden / 4"}\n'
    text += '[compile]\noptimizer = {dependent = "model.name", table = {gpt2 = {choice = ["lion"]}}}\n'
    values = RandomSampler(read(tmp_path, text).space, 0).ask(0, {}).values
    assert (values["train.warmup"], values["train.lr"], values["compile.optimizer"]) == (
        1,
        8.0,
        "lion",
    )


@pytest.mark.parametrize(
    "formula, value",
    [
        ("1 + 2 * 3", 7),
        ("-(model.kv-heads - 1) ** 2", -4),
        ("min(model.kv-heads, 2, 9)", 2),
        ("7 // 2 + 7 % 4 + 1 / 4", 6.25),
    ],
)
def test_formulas(formula, value):
    assert Formula(formula).value({"model.kv-heads": 3}) == value


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "model.hidden +",
        "open('x')",
        "().__class__",
        "x",
        "1 if 2 else 3",
        "'a'",
        "[1]",
        "max()",
        "1 < 2",
        "True",
        "lambda: 1",
        "9" * 300,
        "(" * 150,
    ],
)
def test_what_is_no_formula_is_refused(formula):
    with pytest.raises(TuneError, match="expected a formula"):
        Formula(formula)


@pytest.mark.parametrize(
    "formula", ["1 / 0", "2 ** 9999", "model.name * 2", "(0 - 8) ** 0.5"]
)
def test_formulas_without_a_value(formula):
    with pytest.raises(TuneError, match="has no value"):
        Formula(formula).value({"model.name": "gpt2"})


def test_flags_are_those_of_the_values():
    values = {
        "model.name": "gpt2",
        "model.kv-heads": 2,
        "train.lr": 0.001,
        "train.a": True,
        "train.b": False,
        "train.clip": -1,
        "train.steps": 3.0,
        "compile.x": "a b",
    }
    assert names.arguments(values, "model") == ["gpt2", "--kv-heads=2"]
    assert names.arguments(values, "train") == [
        "--a",
        "--clip=-1",
        "--lr=0.001",
        "--steps=3",
    ]
    assert names.arguments(values, "compile") == ["--x=a b"]


MISTAKES = [
    (
        "lr = {uniform = [2, 1]}",
        11,
        "train.lr: expected a range with low ≤ high, found [2.0, 1.0]",
    ),
    (
        "lr = {log-uniform = [0, 1]}",
        11,
        "train.lr: expected bounds above 0, since their logarithms are "
        "taken, found [0, 1]; log10-uniform takes logarithms",
    ),
    (
        "lr = {log10-uniform = [1, 1e4]}",
        11,
        "train.lr: expected logarithms of at most 300, found [1, 10000]; "
        "log-uniform takes the values themselves",
    ),
    ("lr = {normal = [1, 0]}", 11, "train.lr: expected a deviation above 0, found 0"),
    ("lr = {uniform = [1]}", 11, "train.lr: expected two numbers, [low, high], found [1]"),
    (
        "lr = {randint = [1.5, 2]}",
        11,
        "train.lr: expected two whole numbers, [low, high], found [1.5, 2]",
    ),
    (
        "lr = {randint = [1, 2], step = 0}",
        11,
        "train.lr: expected a step of 1 or more, found 0",
    ),
    (
        "lr = {uniform = [1, 2], step = 1}",
        11,
        "train.lr: expected nothing beside uniform, found step",
    ),
    ("lr = {unifrom = [1, 2]}", 11, "found unifrom; did you mean 'uniform'?"),
    ("lr = {choice = []}", 11, "train.lr: expected a list of values, found an empty one"),
    (
        "lr = {choice = [1, 1.0]}",
        11,
        "train.lr: expected values that differ, found 1 twice",
    ),
    (
        "lr = {repeat = 1, most = 0}",
        11,
        "train.lr: repeat: expected most = N, 1 or more, found 0",
    ),
    ("lr = nan", 11, "train.lr: expected a finite number, found nan"),
    (
        "lr = 2024-01-01",
        11,
        "train.lr: expected a number, a text, true or false, found 2024-01-01",
    ),
    (
        "\nrl = 1",
        12,
        "train.rl: there is no such flag of optimus-run train; did you mean 'train.lr'?",
    ),
    ("save = 'x'", 11, "train.save: expected another name; optimus-tune sets this one"),
    (
        "lr = {dependent = 'train.clip'}\nclip = {dependent = 'train.warmup'}\nwarmup = {dependent = 'train.lr'}",
        11,
        "a cycle of dependents: train.lr ← train.clip ← train.warmup ← train.lr",
    ),
    ("lr = {dependent = 'train.lr'}", 11, "a cycle of dependents: train.lr ← train.lr"),
    (
        "lr = {dependent = 'train.step'}",
        11,
        "train.lr: expected a name of this space or of one around it, "
        "found train.step; did you mean 'train.steps'?",
    ),
    (
        "lr = {dependent = 'model.layers'}\n[optional.a.model]\nlayers = 1",
        11,
        "train.lr: expected a name of this space or of one around it, found model.layers",
    ),
    (
        "lr = {repeat = {exhaustive = [1]}, most = 2}",
        11,
        "train.lr: expected a domain that is drawn, found exhaustive within another",
    ),
    ("[optional.a.train]\nsteps = 4", 12, "train.steps is set in line 10, too"),
    (
        "[trian]\nlr = 1",
        11,
        "expected one of the tables model, compile, train, exclusive, optional, study, pool, "
        "found trian; did you mean 'train'?",
    ),
    ("[exclusive.a]", 11, "exclusive a: expected alternatives, found none"),
    (
        "[exclusive.a.'b c'.model]",
        11,
        "expected a name of letters, digits, _ . and -, found 'b c'",
    ),
    ("lr = ", 11, "Invalid value"),
    ("[pool]\nlanes = 1", 12, "pool.lanes: expected auto, off or a number from 2 to 4096"),
    ("[pool]\nlane = 2", 12, "pool.lane: expected lanes"),
    ("lanes = 2", 11, "train.lanes: expected another name; optimus-tune sets this one"),
]


@pytest.mark.parametrize("text, line, message", MISTAKES)
def test_a_mistake_is_one_message_with_its_line(tmp_path, text, line, message):
    with pytest.raises(spec.SpecError) as error:
        read(tmp_path, SPEC + text + "\n")
    found = str(error.value)
    assert found.startswith("%s:%d: " % (tmp_path / "spec.toml", line)), found
    assert message in found and "\n" not in found


@pytest.mark.parametrize(
    "old, new, message",
    [
        (
            '["loss"]',
            '["los"]',
            ":2: study.objectives: expected eval_loss or loss or seconds or peak_bytes or "
            "step_ms or rank_bytes, found los; did you mean 'loss'?",
        ),
        (
            '["loss"]',
            '["eval_loss"]',
            ":2: the objective eval_loss needs train.eval-data, found none; "
            "loss is that of the last step",
        ),
        (
            '["loss"]',
            '["step_mss@h100"]',
            ":2: study.objectives: expected step_ms or rank_bytes, found step_mss; did you",
        ),
        ('["loss"]', "[]", ":2: study.objectives: expected a list of names, found []"),
        ("[study]\n", "[study]\ntrails = 3\n", ":2: study.trails: expected one of"),
        (
            "[study]\n",
            "[study]\ntrials = 0\n",
            ":2: study.trials: expected a whole number of at least 1, found 0",
        ),
        (
            "[study]\n",
            "[study]\nhours = -1\n",
            ":2: study.hours: expected a number above 0, found -1",
        ),
        (
            "[study]\n",
            "[study]\nkeep = 'most'\n",
            ":2: study.keep: expected best or all, found most",
        ),
        ('name = "gpt2"', "", "expected model.name, found none"),
        (
            "[study]\n",
            "[study]\nrungs = {method = 'asha', least = 3}\n",
            ":2: study.rungs.least: expected fewer " "steps than train.steps, 3, found 3",
        ),
        (
            "[study]\n",
            "[study]\nrungs = {method = 'ahsa', least = 1}\n",
            "did you mean 'asha'?",
        ),
        ("[study]", "study = 1\n[stud]", "study: expected a table, found 1"),
    ],
)
def test_mistakes_of_a_study(tmp_path, old, new, message):
    assert old in SPEC
    with pytest.raises(spec.SpecError) as error:
        read(tmp_path, SPEC.replace(old, new, 1))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_no_specification(tmp_path):
    for data, message in (
        (b"\xff\xfe", "expected UTF-8"),
        (b"#" * (1 << 20) + b"##", "at most"),
    ):
        path = tmp_path / "spec.toml"
        path.write_bytes(data)
        with pytest.raises(spec.SpecError, match=message):
            spec.read(str(path))
    with pytest.raises(spec.SpecError, match="cannot read"):
        spec.read(str(tmp_path / "none.toml"))


IN_PYTHON = """\
_sizes = [64 * count for count in range(1, 3)]
study = dict(objectives=["loss"], trials=3)
model = {
    "name": "gpt2",
    "hidden": {"choice": _sizes},
}
train = {"data": "a.txt", "steps": 10}
train["lr"] = {"uniform": (0, 1)}
exclusive = {"optimizer": {"adamw": {"compile": {"optimizer": "adamw"}}, "none": {}}}
"""


def test_a_specification_in_python_says_the_same(tmp_path):
    (tmp_path / "a.py").write_text(IN_PYTHON)
    (tmp_path / "a.toml").write_text(
        """\
study = { objectives = ["loss"], trials = 3 }
model = { name = "gpt2", hidden = { choice = [64, 128] } }
train = { data = "a.txt", steps = 10, lr = { uniform = [0, 1] } }
exclusive = { optimizer = { adamw = { compile = { optimizer = "adamw" } }, none = {} } }
"""
    )
    ours, theirs = (spec.read(str(tmp_path / name)) for name in ("a.py", "a.toml"))
    assert ours.study == theirs.study and ours.folder == theirs.folder
    for seed in range(8):
        drawn = [
            spaces.draw(each.space, RandomChooser(seed, 0)) for each in (ours, theirs)
        ]
        assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"hidden"', '"hiden"', ":5: model.hiden: there is no such flag of optimus.models; "
         "did you mean 'model.hidden'?"),
        ("(0, 1)", "(1, 0)", ":8: train.lr: expected a range with low ≤ high"),
        ('["lr"]', '["rl"]', ":8: train.rl: there is no such flag"),
        ("trials=3", "trails=3", ":2: study.trails: expected one of"),
        ("model =", "modle =", ":3: expected one of the tables"),
        ("train = {", "train = [", ":7: closing parenthesis"),
        ("_sizes}", "sizes}", ":5: NameError: name 'sizes' is not defined"),
        ("study =", "raise SystemExit(3)\nstudy =", ":2: SystemExit: 3"),
        ('"compile":', '"compiel":', ":9: expected one of the tables"),
    ],
)
def test_mistakes_in_python_have_lines(tmp_path, old, new, message):
    path = tmp_path / "a.py"
    path.write_text(IN_PYTHON.replace(old, new))
    with pytest.raises(spec.SpecError) as error:
        spec.read(str(path))
    assert str(error.value).startswith(str(path) + message)
