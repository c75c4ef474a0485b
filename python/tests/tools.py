# ===- tools.py - Driving the built tools ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs the built tools as a user would, and reads what they write."""

import functools
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import pytest

import bert_reference
import families_reference
import gpt2_reference
import llama_reference
import safetensors_file
from compiled_models import CompiledModels
from optimus.models import __main__ as models
from session import Session
from transformer_reference import Tensors

REPOSITORY = Path(__file__).resolve().parents[2]

# Long enough for any one command of these tests on two busy cores.
TIMEOUT_SECONDS = 120

# Flags for an emulated GPU: Tools.fake_gpu has its driver.
EMULATED = ("--target", "cuda", "--gpu-arch", "emulated")


def has_assembler() -> bool:
    """Whether there is a ptxas where optimus-compile looks for one."""
    places = (None, "/usr/local/cuda/bin")
    return any(shutil.which("ptxas", path=place) for place in places)


PYTHON_CACHE = Path(
    os.environ.get("OPTIMUS_PYTHON_CACHE", REPOSITORY / ".cache/python")
)
"""What `scripts/setup --python` unpacks."""

PYTHON_FULL_CACHE = Path(
    os.environ.get("OPTIMUS_PYTHON_FULL_CACHE", REPOSITORY / ".cache/python-full")
)
"""What `scripts/setup --python=full` unpacks beside it."""


def has_tokenizers() -> bool:
    """Whether optimus.data finds PyPI's tokenizers."""
    installed = importlib.util.find_spec("tokenizers") is not None
    return installed or (PYTHON_CACHE / "tokenizers").exists()


def skip_without_namespaces() -> None:
    """Skips where hosts cannot be network namespaces."""
    if not all(map(shutil.which, ["ip", "tc", "mpirun"])):
        pytest.skip("needs iproute2 and OpenMPI")
    # Where the root is no mount, as under chroot, they are made but not entered.
    name = "optimus-probe-%d" % os.getpid()
    for probe in (["add", name], ["exec", name, "true"], ["del", name]):
        made = subprocess.run(["ip", "netns", *probe], capture_output=True, text=True)
        if made.returncode != 0:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            pytest.skip("network namespaces cannot be used here: " + made.stderr.strip())


def load_script(path: Path) -> ModuleType:
    """A script of the repository, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Model(NamedTuple):
    """The arguments of the GPT-2 builder."""

    KIND = "gpt2"

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int
    ffn: Optional[int] = None
    init_std: float = 0.02
    dropout: float = 0.0

    def parameter_shapes(self):
        return gpt2_reference.parameter_shapes(
            self.layers,
            self.hidden,
            self.sequence,
            self.vocabulary,
            self.ffn or 4 * self.hidden,
        )


class BertModel(Model):
    """The arguments of the BERT builder, which are those of GPT-2's."""

    KIND = "bert"

    def parameter_shapes(self):
        return bert_reference.parameter_shapes(
            self.layers,
            self.hidden,
            self.sequence,
            self.vocabulary,
            self.ffn or 4 * self.hidden,
        )


class LlamaModel(NamedTuple):
    """The arguments of the Llama builder."""

    KIND = "llama"

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    sequence: int
    vocabulary: int
    batch: int
    rope_theta: float = 10000.0
    tied: bool = False
    window: Optional[int] = None
    qkv_bias: Optional[bool] = None
    head_dim: Optional[int] = None
    qk_norm: Optional[bool] = None
    rope_scaling: Optional[str] = None

    def parameter_shapes(self):
        return llama_reference.parameter_shapes(
            *(self.layers, self.hidden, self.heads, self.kv_heads, self.ffn),
            *(self.vocabulary, self.tied, bool(self.qkv_bias)),
            *(self.head_dim, bool(self.qk_norm)),
        )


class PhiModel(NamedTuple):
    """The arguments of the Phi builder."""

    KIND = "phi"

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int
    rotary_dim: int
    ffn: int
    norms: int = 1
    rope_theta: float = 10000.0

    def parameter_shapes(self):
        return families_reference.phi_shapes(
            self.layers, self.hidden, self.ffn, self.vocabulary, self.norms
        )


class NeoxModel(NamedTuple):
    """The arguments of the GPT-NeoX builder."""

    KIND = "gpt_neox"

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    batch: int
    rotary_dim: int
    ffn: int
    rope_theta: float = 10000.0
    sequential: Optional[bool] = None
    no_attention_bias: Optional[bool] = None
    tied: Optional[bool] = None

    def parameter_shapes(self):
        """Of checkpoints, in which several parameters are one tensor."""
        return families_reference.neox_shapes(self)


class GatedEncoderModel(NamedTuple):
    """The arguments of the builder of the gated encoder."""

    KIND = "gated-encoder"

    layers: int
    hidden: int
    heads: int
    head_dim: int
    ffn: int
    sequence: int
    vocabulary: int
    batch: int

    def parameter_shapes(self):
        return families_reference.gated_encoder_shapes(
            *(self.layers, self.hidden, self.heads * self.head_dim),
            *(self.ffn, self.sequence, self.vocabulary),
        )


def command_line(model: NamedTuple) -> List[str]:
    """The flags of a builder for the arguments that have a value."""
    names = {"sequence": "--seq", "vocabulary": "--vocab"}
    parts: List[str] = []
    for name, value in model._asdict().items():
        flag = names.get(name, "--" + name.replace("_", "-"))
        if isinstance(value, bool):
            parts.append(flag if value else "--un" + name)
        elif value is not None:
            parts += [flag, str(value)]
    return parts


class Checkpoint:
    """A checkpoint folder, read without the tools."""

    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def parameters(self) -> Tensors:
        return safetensors_file.read(self.folder / "model.safetensors")

    @property
    def moments(self) -> Tensors:
        return safetensors_file.read(self.folder / "optimizer.safetensors")

    @property
    def state(self) -> dict:
        return json.loads((self.folder / "state.json").read_text())


class Tools:
    """The programs of one build, and what they made in this session.

    OPTIMUS_RUN is the command line of an optimus-run of another build, and
    OPTIMUS_MCPU the processor that it runs on.
    """

    def __init__(self, binaries: Path, session: Session):
        self.binaries = binaries
        self._session = session
        self._other_run = shlex.split(os.environ.get("OPTIMUS_RUN", ""))
        folder = binaries.resolve().parent / "test-models"
        self.models = CompiledModels(folder, binaries / "optimus-compile")
        processor = os.environ.get("OPTIMUS_MCPU")
        self._processor = ["--mcpu", processor] if processor else []

    def command(self, tool: str, *arguments) -> List[str]:
        program = [str(self.binaries / tool)]
        if tool == "optimus-run" and self._other_run:
            program = self._other_run
        return [*program, *map(str, arguments)]

    def call(self, tool: str, *arguments) -> subprocess.CompletedProcess:
        return call(self.command(tool, *arguments))

    @functools.cached_property
    def has_address_sanitizer(self) -> bool:
        return b"__asan_init" in (self.binaries / "optimus-run").read_bytes()

    def fake_gpu(self, **settings) -> Dict[str, str]:
        """An environment with the GPU of runtime/device/cuda/fake and its settings, as
        seed=3 for OPTIMUS_FAKE_GPU_SEED=3."""
        libraries = self.binaries.resolve().parent / "lib"
        return dict(
            os.environ,
            OPTIMUS_CUDA_DRIVER_LIBRARY=str(libraries / "libfake_cuda.so"),
            OPTIMUS_CUBLASLT_LIBRARY=str(libraries / "libfake_cublaslt.so"),
            OPTIMUS_CUDNN_LIBRARY=str(libraries / "libfake_cudnn.so"),
            OPTIMUS_NCCL_LIBRARY=str(libraries / "libfake_nccl.so"),
            **{
                "OPTIMUS_FAKE_GPU_" + name.upper(): str(value)
                for name, value in settings.items()
            },
        )

    def run(self, tool: str, *arguments) -> str:
        """Standard output of a tool that must succeed."""
        return succeed(self.call(tool, *arguments))

    def buffers(self, library: Path, lifetime: Optional[str] = None) -> List[dict]:
        """A library's buffers by its manifest, all or those of one lifetime."""
        manifest = json.loads(self.run("optimus-run", "inspect", library, "--json"))
        return [
            buffer
            for buffer in manifest["buffers"]
            if lifetime in (None, buffer["lifetime"])
        ]

    def rounding(self, library: Path) -> float:
        """R of docs/equivalence.md, of a library's forward."""
        manifest = json.loads(self.run("optimus-run", "inspect", library, "--json"))
        (entry,) = [f for f in manifest["functions"] if f["entry"]["kind"] == "forward"]
        (rounding,) = [arg["rounding"] for arg in entry["args"] if "rounding" in arg]
        return rounding

    def program(
        self, model: Model, functions: Optional[str] = "loss", generate: Optional[str] = None
    ) -> Path:
        """The model's text IR."""
        parts = [model.KIND, *map(str, model)] + [str(functions)] * (functions != "loss")
        name = "-".join([*parts, *([generate] if generate else [])]) + ".mlir"
        make = lambda path: build_program(model, path, functions, generate)
        return self._session.once(name, make)

    def library(
        self,
        model: Model,
        mesh: Optional[str] = None,
        strategy: str = "serial",
        *flags,
        functions: Optional[str] = "loss",
        generate: Optional[str] = None,
    ) -> Path:
        """The model compiled for a mesh such as "row:2,col:2", once a session, or
        in one before with the same compiler."""
        more = {"functions": functions, "generate": generate}
        return self._compiled(".so", model, mesh, strategy, *flags, **more)

    def manifest(
        self,
        model: Model,
        mesh: Optional[str] = None,
        strategy: str = "serial",
        *flags,
    ) -> dict:
        """Such a library's manifest, without the machine code, which takes most of a
        compilation."""
        flags = (*flags, "--compile-to", "llvm")
        path = self._compiled(".mlir", model, mesh, strategy, *flags)
        (escaped,) = re.findall(
            r'global internal constant @optimus\.manifest\("((?:[^"\\]|\\.)*)"',
            path.read_text(),
        )
        unescaped = re.sub(
            r"\\(\\|[0-9A-F]{2})",
            lambda found: "\\" if found[1] == "\\" else chr(int(found[1], 16)),
            escaped,
        )
        return json.loads(unescaped.rstrip("\0"))

    def _compiled(
        self,
        suffix: str,
        model: Model,
        mesh: Optional[str],
        strategy: str,
        *flags,
        functions: Optional[str] = "loss",
        generate: Optional[str] = None,
    ) -> Path:
        flags = ("--strategy", strategy, *self._processor, *map(str, flags))
        if mesh:
            flags += ("--mesh", mesh)
        key = repr((model.KIND, *model, *flags, functions, generate)).encode()
        name = "%s-%s%s" % (model.KIND, hashlib.sha256(key).hexdigest()[:16], suffix)
        source = self.program(model, functions, generate)

        def compile(path: Path) -> None:
            self.run("optimus-compile", source, *flags, "-o", path)

        return self._session.once(
            name, lambda path: self.models.get(source, flags, path, compile)
        )

    def train_command(
        self, library: Path, data: Path, steps: int, *flags, log: Optional[Path] = None
    ) -> List[str]:
        """A training run whose data and learning rate are easily followed."""
        return self.command(
            "optimus-run",
            *("train", library, "--data", data, "--steps", steps),
            *("--order", "sequential", "--schedule", "constant", "--warmup", 0),
            *(["--log-json", log] if log else []),
            *flags,
        )

    def train(self, *arguments, log: Path, prefix: List[str] = []) -> List[dict]:
        """Trains to the end; the lines of the log."""
        command = self.train_command(*arguments, log=log)
        succeed(call([*prefix, *command]))
        return read_log(log)

    def initial(self, library: Path, data: Path, folder: Path, seed=1) -> Checkpoint:
        """The state before the first step."""
        flags = ["--seed", seed, "--save", folder]
        succeed(call(self.train_command(library, data, 0, *flags)))
        return Checkpoint(folder)


def build_program(
    model: Model,
    path: Path,
    functions: Optional[str] = "loss",
    generate: Optional[str] = None,
    flags: Sequence[str] = (),
) -> None:
    flags = [*command_line(model), *flags, "-o", str(path)]
    flags += ["--functions", functions] if functions else []
    flags += ["--generate", generate] if generate else []
    succeed(run_builder(model.KIND, *flags))


def run_builder(*arguments) -> subprocess.CompletedProcess:
    """`python3 -m optimus.models` with a command line; test_builder.py holds it to what a
    process of its own says."""
    return in_process(models.main, *arguments)


def in_process(main: Callable[[List[str]], int], *arguments) -> subprocess.CompletedProcess:
    """A program in Python here, without the start of an interpreter. Its standard output
    and error are those of the descriptors 1 and 2."""
    command = list(map(str, arguments))
    written = {1: tempfile.TemporaryFile(), 2: tempfile.TemporaryFile()}
    before = {stream: os.dup(stream) for stream in written}
    for stream, file in written.items():
        os.dup2(file.fileno(), stream)
    try:
        code = main(command)
    except SystemExit as end:
        code = end.code or 0
    finally:
        for stream, copy in before.items():
            os.dup2(copy, stream)
            os.close(copy)
    texts = []
    for file in written.values():
        with file:
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess([main.__module__, *command], code, *texts)


def call(
    command: List[str], timeout: float = TIMEOUT_SECONDS, **options
) -> subprocess.CompletedProcess:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        timeout=timeout,
        **options,
    )


def succeed(result: subprocess.CompletedProcess) -> str:
    assert result.returncode == 0, "exit code %d from: %s\n%s" % (
        result.returncode,
        " ".join(result.args),
        result.stderr[-4000:],
    )
    return result.stdout


def default_signals() -> None:
    """For preexec_fn: a caller, such as nohup, may have some of them ignored."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def mpirun(ranks: int) -> List[str]:
    """The start of a command line that runs `ranks` processes on this host."""
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return ["mpirun", *flags, "-n", str(ranks)]


def over_tcp(ranks: int) -> List[str]:
    """As mpirun, of processes that meet over TCP."""
    return ["sh", str(REPOSITORY / "runtime/ccl/tcp/run-over-tcp.sh"), str(ranks)]


def verses(last: str) -> List[str]:
    """Of the Bible from the first on, as Debian's bible-kjv prints them."""
    if not shutil.which("bible"):
        pytest.fail("expected the program `bible` in PATH; install the package bible-kjv")
    said = succeed(call(["bible", "-f", "Gen1:1-%s" % last]))
    return [line.partition(" ")[2] for line in said.splitlines()]


def read_log(path: Path) -> List[dict]:
    """The steps of a run's log."""
    lines = map(json.loads, path.read_text().splitlines())
    return [line for line in lines if "loss" in line]


def losses(log: List[dict]) -> np.ndarray:
    return np.array([line["loss"] for line in log])


def prose(size: int, seed: int = 3) -> bytes:
    """Made-up text with some structure to learn."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = [
        "".join(random.choice(letters, random.integers(2, 8))) for _ in range(60)
    ]
    rank = np.arange(1, len(words) + 1)
    drawn = random.choice(words, size // 3, p=(1 / rank) / (1 / rank).sum())
    return " ".join(drawn).encode()[:size]
