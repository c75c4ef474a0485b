# ===- conftest.py - Fixtures ---------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The built tools and the text they train on."""

import importlib
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import generation_models
from selection import TURNS, out_of_turn, turn_of_commit
from session import Session
from tools import REPOSITORY, Tools, prose

# Files are dealt out whole to the workers of pytest-xdist (--dist loadfile): the longest
# come first and short ones last, so that all workers end together.
# Of those that wait more than they compute one is under way at a time.
LONG = """test_commands test_launchers test_laws test_bench test_bench_gpu test_crashes
    test_generation test_nccl test_meshes test_checkpoints test_cudnn test_finetune
    test_schedule test_generate_tool test_data""".split()
SHORT = ["test_docs", "test_lint", "test_sentences", "test_tune_spaces"]

NEEDED = ["optimus-compile", "optimus-interpret", "optimus-opt", "optimus-run"]


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="run tests marked `long`, too")
    parser.addoption(
        "--rotate",
        type=int,
        nargs="?",
        const=turn_of_commit(),
        choices=range(TURNS),
        metavar="TURN",
        help="of tests marked `rotates` run one turn's: the commit's, or that of this turn",
    )


def pytest_configure(config):
    # What tests start may be in another folder.
    if os.environ.get("OPTIMUS_BIN_DIR"):
        os.environ["OPTIMUS_BIN_DIR"] = os.path.abspath(os.environ["OPTIMUS_BIN_DIR"])


def pytest_report_header(config):
    turn = config.getoption("--rotate")
    if turn is None:
        return "rotation: none, all tests run"
    return "rotation: --rotate %d, one in %d of the tests marked `rotates`" % (turn, TURNS)


def _place(item: pytest.Item) -> int:
    """Where a test's file comes among the others, whose order stays."""
    name = item.path.stem
    if name in LONG:
        return LONG.index(name) - len(LONG)
    return int(name in SHORT)


def pytest_collection_modifyitems(config, items):
    chosen = items[:]
    if not config.getoption("--long"):
        chosen = [item for item in chosen if not item.get_closest_marker("long")]
    if config.getoption("--rotate") is not None:
        left_out = set(out_of_turn(chosen, config.getoption("--rotate")))
        chosen = [item for item in chosen if item not in left_out]
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    items[:] = chosen
    items.sort(key=_place)


@pytest.fixture(scope="session")
def session(tmp_path_factory) -> Session:
    folder = tmp_path_factory.getbasetemp()
    # Each worker of pytest-xdist has a folder of its own in that of the run.
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return Session(folder / "session")


@pytest.fixture(scope="session", autouse=True)
def user_cache(tmp_path_factory):
    """That of the user stays as it is, and says nothing to tests; none measures this
    machine for its predictions."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["OPTIMUS_MACHINE_CACHE"] = "none"


@pytest.fixture(autouse=True)
def shares_machine(request, session):
    """Tests marked `alone` run while no other does."""
    with session.machine(alone=request.node.get_closest_marker("alone") is not None):
        yield


@pytest.fixture(scope="session")
def tools(session) -> Tools:
    """The tools in OPTIMUS_BIN_DIR, or else in build/bin.

    Tests are skipped only where nothing was built: a build that lacks a tool
    fails them.
    """
    given = os.environ.get("OPTIMUS_BIN_DIR")
    binaries = Path(given) if given else REPOSITORY / "build" / "bin"
    if not given and not binaries.is_dir():
        pytest.skip("nothing is built in %s and OPTIMUS_BIN_DIR is not set" % binaries)
    missing = [name for name in NEEDED if not os.access(binaries / name, os.X_OK)]
    if missing:
        pytest.fail("%s lacks %s" % (binaries, ", ".join(missing)))
    tools = Tools(binaries, session)
    tools.models.remove_unused()
    return tools


@pytest.fixture(scope="session")
def python_folder(tools) -> Path:
    """The folder of the build that has the Python module."""
    folder = tools.binaries.resolve().parent / "python"
    if not list(folder.glob("optimus/_runtime.*.so")):
        pytest.skip("no optimus._runtime in %s: CMake says why it builds none" % folder)
    return folder


@pytest.fixture(scope="session")
def optimus(python_folder) -> ModuleType:
    """The package, with the module of the runtime."""
    package = importlib.import_module("optimus")
    folder = str(python_folder / "optimus")
    if folder not in package.__path__:
        package.__path__.append(folder)
    return package


@pytest.fixture(scope="session")
def limits_addresses(tools):
    """Skips tests of what happens where addresses run out, if they never do."""
    if tools.has_address_sanitizer:
        pytest.skip("AddressSanitizer reserves address space, and starts under no limit")


@pytest.fixture(scope="session")
def measures_memory(tools):
    """Skips tests of how much processes hold, if they hold more than they use."""
    if tools.has_address_sanitizer:
        pytest.skip("AddressSanitizer keeps what was freed, and books on every byte")


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """About 20,000 bytes to train on."""
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_bytes(prose(20_020))
    return path


@pytest.fixture(scope="session")
def text_tokens(text) -> np.ndarray:
    return np.frombuffer(text.read_bytes(), np.uint8)


@pytest.fixture(scope="session")
def states(tools, tmp_path_factory):
    """Small models with slots, each trained for the first test that asks."""
    return generation_models.trained_in(tools, tmp_path_factory.mktemp("generation"))


@pytest.fixture(scope="session")
def tokenizer_json() -> bytes:
    """A BPE on bytes, of 300 tokens with one that is no text."""
    from optimus.data import tokenizer

    tokenizers = tokenizer.library()
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator([prose(20_000).decode()], trainer)
    assert made.get_vocab_size() == 300
    return made.to_str().encode()
