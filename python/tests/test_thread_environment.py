# ===- test_thread_environment.py - Runs in any environment of threads ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Every variable that GNU OpenMP and oneDNN read: a run has the same bits as
without it, or ends with one message. Standard output is the program's alone."""

import os
import platform
import re

import pytest

from tools import Model, call

# Large enough for oneDNN to divide its products among threads.
MODEL = Model(layers=1, hidden=64, heads=4, sequence=64, vocabulary=256, batch=8)

# Of OpenMP, what limits a team; values under which a run of one thread may differ from
# a run of more are below.
HARMLESS = """
OMP_DYNAMIC=true OMP_DYNAMIC=false OMP_DYNAMIC=nonsense
OMP_NUM_THREADS=1 OMP_NUM_THREADS=7 OMP_NUM_THREADS=1,1 OMP_NUM_THREADS=nonsense
OMP_THREAD_LIMIT=3 OMP_THREAD_LIMIT=0
OMP_PROC_BIND=true OMP_PROC_BIND=spread OMP_PROC_BIND=close,spread
OMP_PLACES=cores OMP_PLACES={0} GOMP_CPU_AFFINITY=0
OMP_SCHEDULE=dynamic,7 OMP_SCHEDULE=guided
OMP_STACKSIZE=1M OMP_STACKSIZE=1 OMP_STACKSIZE=nonsense GOMP_STACKSIZE=512
OMP_WAIT_POLICY=active OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=0
GOMP_SPINCOUNT=infinity OMP_MAX_ACTIVE_LEVELS=1 OMP_MAX_ACTIVE_LEVELS=9
OMP_NESTED=true OMP_CANCELLATION=true OMP_MAX_TASK_PRIORITY=5
OMP_DISPLAY_ENV=verbose OMP_DISPLAY_AFFINITY=true OMP_AFFINITY_FORMAT=%n
OMP_NUM_TEAMS=1 OMP_TEAMS_THREAD_LIMIT=1 OMP_TARGET_OFFLOAD=mandatory
OMP_DEFAULT_DEVICE=3 OMP_ALLOCATOR=omp_low_lat_mem_alloc OMP_TOOL=disabled
GOMP_DEBUG=1 ACC_DEVICE_TYPE=host
DNNL_VERBOSE=1 ONEDNN_VERBOSE=2 DNNL_VERBOSE_TIMESTAMP=1
DNNL_JIT_DUMP=1 ONEDNN_JIT_DUMP=1 DNNL_JIT_PROFILE=0
DNNL_PRIMITIVE_CACHE_CAPACITY=0 ONEDNN_PRIMITIVE_CACHE_CAPACITY=1
DNNL_DEFAULT_FPMATH_MODE=BF16 ONEDNN_DEFAULT_FPMATH_MODE=ANY
DNNL_DEFAULT_FPMATH_MODE=TF32 DNNL_MAX_CPU_ISA=nonsense DNNL_MAX_CPU_ISA=ALL
ONEDNN_MAX_CPU_ISA=DEFAULT DNNL_CPU_ISA_HINTS=NO_HINTS
""".split()

# Which threads a rank may have, with this setting.
LIMITING = {
    "OMP_THREAD_LIMIT=1": 1,
    "OMP_THREAD_LIMIT=2": 2,
    "OMP_MAX_ACTIVE_LEVELS=0": 1,
}

X86 = platform.machine() in ("x86_64", "AMD64")


class Run:
    def __init__(self, tools, library, data, folder, threads, *settings, flags=()):
        """In the folder, where libraries leave what they write."""
        named = ("OMP_", "GOMP_", "DNNL_", "ONEDNN_", "ACC_")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(named)
        }
        environment.update(setting.split("=", 1) for setting in settings)
        flags = [*flags, *(["--threads-per-rank", threads] if threads else [])]
        flags += ["--seed", 1, "--lr", 3e-3, "--save", folder / "saved"]
        command = list(map(str, tools.train_command(library, data, 2, *flags)))
        if os.path.exists(command[0]):
            command[0] = os.path.abspath(command[0])
        self.result = call(command, env=environment, cwd=folder)
        self.saved = folder / "saved"

    @property
    def bits(self):
        return [
            (self.saved / name).read_bytes()
            for name in ("model.safetensors", "optimizer.safetensors")
        ]

    @property
    def output(self):
        """Standard output without times and folders."""
        timeless = re.sub(r"[0-9.,]+ (ms|tok/s|tokens/s)", "", self.result.stdout)
        return timeless.replace(str(self.saved), "")

    @property
    def threads(self):
        return int(re.search(r"(\d+) threads? each", self.result.stdout)[1])


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL)


@pytest.fixture(scope="module")
def plain(tools, library, text, tmp_path_factory):
    """Runs by threads, without any variable."""
    runs = {}
    for threads in (1, 2, 3):
        folder = tmp_path_factory.mktemp("plain")
        runs[threads] = Run(tools, library, text, folder, threads)
        assert runs[threads].result.returncode == 0, runs[threads].result.stderr
    return runs


def expect_same(run, plain):
    assert run.result.returncode == 0, run.result.stderr
    assert run.output == plain.output
    assert run.bits == plain.bits


@pytest.mark.parametrize("setting", HARMLESS)
def test_the_same_bits_whatever_is_set(tools, library, text, plain, tmp_path, setting):
    for threads in (2, 3) if "DYNAMIC=true" in setting else (2,):
        folder = tmp_path / str(threads)
        folder.mkdir()
        run = Run(tools, library, text, folder, threads, setting)
        expect_same(run, plain[threads])
    if "VERBOSE=" in setting:
        assert setting + " is not followed" in run.result.stderr


def test_the_same_bits_with_all_at_once(tools, library, text, plain, tmp_path):
    """Of one thread, and where OpenMP may shrink teams however it likes."""
    settings = {setting.partition("=")[0]: setting for setting in HARMLESS}
    settings.update(OMP_DYNAMIC="OMP_DYNAMIC=true", OMP_STACKSIZE="OMP_STACKSIZE=1M")
    for threads in (1, 3):
        folder = tmp_path / str(threads)
        folder.mkdir()
        run = Run(tools, library, text, folder, threads, *settings.values())
        expect_same(run, plain[threads])


@pytest.mark.parametrize("setting", LIMITING)
def test_a_team_that_is_smaller_is_used_or_refused(
    tools, library, text, plain, tmp_path, setting
):
    most = LIMITING[setting]
    for threads in (None, 1, 2, 3):
        folder = tmp_path / str(threads)
        folder.mkdir()
        run = Run(tools, library, text, folder, threads, setting)
        if threads is None:
            assert run.result.returncode == 0, run.result.stderr
            assert run.threads <= most
            assert run.bits == plain[run.threads].bits
        elif threads <= most:
            expect_same(run, plain[threads])
        else:
            name, value = setting.split("=")
            (line,) = run.result.stderr.splitlines()
            assert run.result.returncode == 1
            assert "OpenMP gives %d of the %d threads" % (most, threads) in line
            assert "%s is %s" % (name, value) in line
            assert not run.saved.exists()


def test_small_stacks_are_refused(tools, library, text, tmp_path):
    for setting in ("OMP_STACKSIZE=64K", "GOMP_STACKSIZE=100"):
        run = Run(tools, library, text, tmp_path, 2, setting)
        (line,) = run.result.stderr.splitlines()
        assert run.result.returncode == 1 and "OMP_STACKSIZE" in line
    # The calling thread's is not OpenMP's.
    run = Run(tools, library, text, tmp_path, 1, "OMP_STACKSIZE=64K")
    assert run.result.returncode == 0, run.result.stderr


def test_ranks_that_are_threads_have_teams_of_their_own(tools, text, tmp_path):
    """A team each, in one process."""
    library = tools.library(MODEL, "data:2", "data")
    runs = []
    for name, settings in (
        ("plain", []),
        ("dynamic", ["OMP_DYNAMIC=true"]),
        ("limited", ["OMP_THREAD_LIMIT=2"]),
    ):
        (tmp_path / name).mkdir()
        runs.append(Run(tools, library, text, tmp_path / name, 2, *settings))
    for run in runs:
        expect_same(run, runs[0])


@pytest.mark.skipif(not X86, reason="DNNL_MAX_CPU_ISA names instructions of x86")
@pytest.mark.parametrize("instructions", ["SSE41", "AVX", "AVX2", "AVX512_CORE"])
def test_an_instruction_set_is_followed(tools, library, text, plain, tmp_path, instructions):
    """Other kernels add in another order: the same curve, within rounding."""
    run = Run(tools, library, text, tmp_path, 2, "DNNL_MAX_CPU_ISA=" + instructions)
    assert run.result.returncode == 0, run.result.stderr
    expected, found = (
        [float(loss) for loss in re.findall(r"loss ([0-9.]+) \|", each.output)]
        for each in (plain[2], run)
    )
    assert len(found) == 2
    assert found == pytest.approx(expected, abs=2e-5)
