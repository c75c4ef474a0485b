# ===- conftest.py - Fixtures ---------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The built tools and the text they train on."""

import os
from pathlib import Path

import numpy as np
import pytest

from tools import REPOSITORY, Tools, prose

NEEDED = ["optimus-compile", "optimus-interpret", "optimus-opt", "optimus-run"]


@pytest.fixture(scope="session")
def tools(tmp_path_factory) -> Tools:
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
    return Tools(binaries, tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """About 20,000 bytes to train on."""
    path = tmp_path_factory.mktemp("data") / "text.txt"
    path.write_bytes(prose(20_020))
    return path


@pytest.fixture(scope="session")
def text_tokens(text) -> np.ndarray:
    return np.frombuffer(text.read_bytes(), np.uint8)
