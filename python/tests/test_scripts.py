# ===- test_scripts.py - What a newcomer types -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""scripts/setup installs the missing packages and nothing else, and every script names
its expectations."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from tools import REPOSITORY, call, default_signals, succeed

SCRIPTS = ["setup", "quickstart", "notebook", "test", "fuzz"]

TABLE = """# Dependencies

| package | provides | why | how long |
|---|---|---|---|
| `here` | `sh` | is installed | for good |
| `absent` | `no-such-command` | is not installed | for good |
| `gone` | `<no/such/header.h>` | was removed, its settings stay | for good |
"""

FUZZ = """
## For scripts/fuzz

| package | provides | why | how long |
|---|---|---|---|
| `mutants` | `no-such-fuzzer` | is needed there only | for good |
"""

# Nothing of it is missing.
INSTALLED = "".join(TABLE.splitlines(True)[:5])

DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
ARCH = 'ID=arch\nPRETTY_NAME="Arch Linux"\n'


class Machine:
    """A checkout on a system that is made up: `here` is installed, `gone` was."""

    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.log = folder / "apt-get.log"
        self.binaries = folder / "bin"
        self.system = folder / "os-release"
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        (self.root / "docs").mkdir()
        self.binaries.mkdir()
        known = '*here) echo "ii " ;; *gone) echo "rc " ;; *) exit 1 ;;'
        self.fake("dpkg-query", 'case "$*" in %s esac' % known)
        self.fake("apt-cache", "exit 0")
        self.fake("dpkg", "exit 0")
        self.fake("apt-get", 'echo "$*" >>%s' % self.log)

    def fake(self, program: str, body: str) -> None:
        path = self.binaries / program
        path.write_text("#!/bin/sh\n%s\n" % body)
        path.chmod(0o755)

    def bring_wheels(self) -> None:
        """As scripts/setup --python --tune leaves them."""
        for name in ("python", "tune"):
            requirements = (self.root / ("scripts/%s-requirements.txt" % name)).read_bytes()
            folder = self.root / ".cache" / name
            folder.mkdir(parents=True)
            (folder / "version").write_text(hashlib.sha256(requirements).hexdigest() + "  -\n")

    def run(self, script: str, **settings):
        command, environment = self.command(script, **settings)
        return call(command, env=environment)

    def command(self, script: str, table=TABLE, system=DEBIAN_12, user=0):
        (self.root / "docs" / "dependencies.md").write_text(table)
        self.system.write_text(system)
        self.fake("id", "echo %d" % user)
        path = "%s:%s" % (self.binaries, os.environ["PATH"])
        environment = dict(os.environ, PATH=path, OPTIMUS_OS_RELEASE=str(self.system))
        return ["bash", str(self.root / "scripts" / script)], environment


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_setup_installs_what_is_missing(machine):
    result = machine.run("setup")
    assert result.returncode == 0, result.stderr
    update, install = machine.log.read_text().splitlines()
    assert update.endswith(" update")
    assert re.search(r" install -y --no-install-recommends absent gone$", install)


def test_setup_without_root_says_what_is_missing(machine):
    result = machine.run("setup", user=1000)
    assert result.returncode == 1
    assert "apt-get install --no-install-recommends absent gone\n" in result.stderr
    assert not machine.log.exists()


def test_setup_elsewhere_says_what_is_missing(machine):
    result = machine.run("setup", system=ARCH)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].endswith("missing: no-such-command (Debian's absent)")
    assert lines[1].endswith("missing: <no/such/header.h> (Debian's gone)")
    assert "this is Arch Linux" in lines[2]
    assert not machine.log.exists()


def test_setup_installs_what_fuzzing_needs_on_request_only(machine):
    table = INSTALLED + FUZZ
    assert machine.run("setup", table=table).returncode == 0
    assert not machine.log.exists()
    command, environment = machine.command("setup", table=table)
    result = call([*command, "--fuzz"], env=environment)
    assert result.returncode == 0, result.stderr
    assert machine.log.read_text().endswith(" mutants\n")


class Wheels:
    """CUDA's parts as wheels that are made up, in place of those of PyPI."""

    def __init__(self, machine, folder: Path):
        self.machine, self.folder = machine, folder
        folder.mkdir()
        self.require("cuda", "nvidia-cuda-nvcc", "bin/ptxas", "#!/bin/sh\necho V13.0\n")
        self.require("cuda-full", "nvidia-cublas", "lib/libcublasLt.so.13", "")

    def require(self, which, name, path, text):
        """A wheel of one file, and the requirement that pins it."""
        stem = name.replace("-", "_") + "-1.0"
        wheel = self.folder / (stem + "-py3-none-any.whl")
        info = stem + ".dist-info/"
        entry = zipfile.ZipInfo("nvidia/cu13/" + path)
        entry.external_attr = 0o100755 << 16
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr(entry, text)
            file.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name)
            file.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(info + "RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        requirement = "%s==1.0 --hash=sha256:%s\n" % (name, digest)
        (self.machine.root / ("scripts/%s-requirements.txt" % which)).write_text(requirement)

    def setup(self, *flags):
        command, environment = self.machine.command("setup", table=INSTALLED)
        folders = environment["PATH"].split(":")
        environment.update(
            # Another toolkit of this machine does not count.
            PATH=":".join(f for f in folders if not os.path.exists(f + "/ptxas")),
            CUDA_HOME="/nowhere",
            PIP_NO_INDEX="1",
            PIP_FIND_LINKS=str(self.folder),
            PIP_CONFIG_FILE=os.devnull,
        )
        return call([*command, *flags], env=environment)


@pytest.fixture
def wheels(machine, tmp_path):
    if call(["/usr/bin/python3", "-m", "pip", "--version"]).returncode != 0:
        pytest.skip("Debian's Python has no pip, and only root may install it")
    machine.fake("dpkg-query", 'case "$*" in *here|*pip) echo "ii " ;; *) exit 1 ;; esac')
    return Wheels(machine, tmp_path / "wheels")


def shell_after(machine, what):
    """What a shell has once it read .cache/cuda/environment."""
    script = "source %s/.cache/cuda/environment; echo %s" % (machine.root, what)
    environment = {"PATH": os.environ["PATH"]}
    return call(["bash", "-euc", script], env=environment).stdout.strip()


def test_setup_brings_cuda_once(machine, wheels):
    first, second = wheels.setup("--cuda"), wheels.setup("--cuda")
    assert first.returncode == 0, first.stderr
    assert "V13.0" in first.stdout
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    found = shell_after(machine, '"$(command -v ptxas)" "${OPTIMUS_CUBLASLT_LIBRARY-none}"')
    assert found == "%s/.cache/cuda/bin/ptxas none" % machine.root


def test_setup_brings_libraries_of_gpus_on_request(machine, wheels):
    for flag in ("--cuda", "--cuda=full", "--cuda"):
        result = wheels.setup(flag)
        assert result.returncode == 0, result.stderr
    # What the last call asks for is there.
    assert result.stdout == ""
    library = shell_after(machine, "$OPTIMUS_CUBLASLT_LIBRARY")
    assert library.endswith("/lib/libcublasLt.so.13") and os.path.exists(library)


def test_setup_takes_cuda_with_the_right_hash_only(machine, wheels):
    path = machine.root / "scripts/cuda-requirements.txt"
    path.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", path.read_text()))
    result = wheels.setup("--cuda")
    assert result.returncode == 1
    assert "DO NOT MATCH THE HASHES" in result.stderr
    assert "install CUDA 13.0's toolkit by hand" in result.stderr
    assert list((machine.root / ".cache").iterdir()) == []


def test_setup_unpacks_wheels_of_data_once(machine, wheels):
    wheels.require("python", "a-model", "model/config.json", "{}")
    first, second = wheels.setup("--python"), wheels.setup("--python")
    assert first.returncode == 0, first.stderr
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    cache = machine.root / ".cache"
    assert [path.name for path in cache.iterdir()] == ["python"]
    assert (cache / "python/nvidia/cu13/model/config.json").read_text() == "{}"
    assert not list(cache.rglob("*.whl"))
    # Another version takes the place of the first.
    wheels.require("python", "a-model", "model/config.json", "[]")
    assert wheels.setup("--python").returncode == 0
    assert (cache / "python/nvidia/cu13/model/config.json").read_text() == "[]"
    path = machine.root / "scripts/python-requirements.txt"
    path.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", path.read_text()))
    result = wheels.setup("--python")
    assert result.returncode == 1
    assert "DO NOT MATCH THE HASHES" in result.stderr
    assert "pip cannot bring the wheels, see above; tests that need them are" in result.stderr
    # What was there stays.
    assert (cache / "python/nvidia/cu13/model/config.json").read_text() == "[]"
    assert [path.name for path in cache.iterdir()] == ["python"]


def test_setup_unpacks_more_wheels_beside(machine, wheels):
    wheels.require("python", "a-model", "small", "a")
    wheels.require("python-full", "a-program", "large", "b")
    assert wheels.setup("--python").returncode == 0
    result = wheels.setup("--python=full")
    assert result.returncode == 0, result.stderr
    cache = machine.root / ".cache"
    assert sorted(path.name for path in cache.iterdir()) == ["python", "python-full"]
    assert (cache / "python-full/nvidia/cu13/large").read_text() == "b"
    path = machine.root / "scripts/python-full-requirements.txt"
    path.write_text(re.sub(r"sha256:\w{4}", "sha256:0000", path.read_text()))
    assert "error: --python=full: pip cannot" in wheels.setup("--python=full").stderr


def test_tests_go_on_without_wheels(machine, wheels):
    machine.fake("cmake", "exit 1")
    command, environment = machine.command("test", table=INSTALLED)
    none = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
    result = call(command, env=dict(environment, **none))
    assert "pip cannot bring the wheels, see above" in result.stderr
    lines = result.stdout.splitlines()
    skipped = [i for i, line in enumerate(lines) if "models are skipped, see above" in line]
    built = [i for i, line in enumerate(lines) if "Building everything" in line]
    assert skipped and built and skipped[0] < built[0]


def test_setup_leaves_a_toolkit_alone(machine, tmp_path):
    toolkit = tmp_path / "toolkit"
    for name in ("bin/ptxas", "include/cuda.h"):
        (toolkit / name).parent.mkdir(parents=True)
        (toolkit / name).touch(0o755)
    command, environment = machine.command("setup", table=INSTALLED)
    result = call([*command, "--cuda"], env=dict(environment, CUDA_HOME=str(toolkit)))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (machine.root / ".cache").exists()


@pytest.mark.parametrize("system", [DEBIAN_12, ARCH])
def test_setup_does_nothing_where_nothing_is_missing(machine, system):
    result = machine.run("setup", table=INSTALLED, system=system, user=1000)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not machine.log.exists()


def test_setup_names_what_apt_does_not_know(machine):
    machine.fake("apt-cache", 'case "$*" in *absent) exit 100 ;; esac')
    result = machine.run("setup")
    assert result.returncode == 1
    assert "no source of apt has absent; " in result.stderr
    assert "bookworm-security, component main" in result.stderr
    assert " install " not in machine.log.read_text()


def test_setup_shows_why_apt_failed(machine):
    machine.fake("apt-get", "echo E: no network; exit 100")
    result = machine.run("setup")
    assert result.returncode == 1
    assert "E: no network" in result.stderr
    assert "missing packages: absent gone; " in result.stderr


def test_setup_without_a_network_says_what_is_missing(machine):
    machine.fake("apt-get", "echo E: Failed to fetch; echo Hit; exit 100")
    machine.fake("apt-cache", 'case "$*" in *absent) exit 100 ;; esac')
    result = machine.run("setup")
    assert result.returncode == 1
    why, what = result.stderr.splitlines()
    assert why == "E: Failed to fetch"
    assert "missing packages: absent gone; " in what
    assert what.endswith("those that it has lack absent")


def test_setup_where_nothing_can_be_written(machine):
    machine.fake("mktemp", "echo mktemp: Read-only file system >&2; exit 1")
    result = machine.run("setup")
    assert result.returncode == 1
    assert "mktemp: Read-only file system" in result.stderr
    assert "missing packages: absent gone; " in result.stderr
    assert not machine.log.exists()


def test_setup_ends_what_a_killed_one_had_begun(machine):
    machine.fake("dpkg", 'echo "dpkg $*" >>%s' % machine.log)
    assert machine.run("setup").returncode == 0
    assert machine.log.read_text().startswith("dpkg --configure -a\n")


def test_setup_rejects_an_empty_list(machine):
    result = machine.run("setup", table="# Dependencies\n")
    assert result.returncode == 1
    assert "lists no package" in result.stderr


def test_build_that_fails_counts_as_a_failure(machine):
    machine.fake("cmake", "echo CMake Error; exit 1")
    machine.bring_wheels()
    result = machine.run("test", table=INSTALLED)
    assert result.returncode == 1
    assert "CMake Error" in result.stderr
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_only_new_build_folders_choose_what_compiles_fastest(machine):
    """Several sources at a time, by Clang and LLVM's linker."""
    machine.fake("cmake", 'echo "cmake $*" >>%s' % machine.log)
    machine.fake("ninja", "exit 1")
    machine.fake("clang++-22", "exit 1")
    machine.fake("ld.lld-22", "exit 1")
    machine.bring_wheels()
    machine.run("test", table=INSTALLED)
    (machine.root / "build/CMakeCache.txt").touch()
    machine.run("test", table=INSTALLED)
    configured = machine.log.read_text().splitlines()
    linker = "-fuse-ld=lld -B%s" % machine.binaries.resolve()
    assert configured == [
        "cmake --preset release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16"
        " -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22"
        " -DCMAKE_EXE_LINKER_FLAGS=%s -DCMAKE_MODULE_LINKER_FLAGS=%s" % (linker, linker),
        "cmake --preset release",
    ]


@pytest.mark.rotates
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_a_script_runs(machine, number):
    started = machine.root / "pid"
    body = "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 60"
    machine.fake("cmake", body.format(started))
    command, environment = machine.command("test", table=INSTALLED)
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert output.splitlines()[-1] == "0 passed, 1 failed"
    # It has its signal, and ends when it gets a processor.
    deadline = time.monotonic() + 30
    while is_running(started.read_text().strip()):
        assert time.monotonic() < deadline, "the script left its command behind"
        time.sleep(0.01)


def is_running(pid):
    try:
        return "zombie" not in Path("/proc/%s/status" % pid).read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--mesh", "2x2"], "--mesh: expected axes and their sizes, as row:2,col:2, fo"),
        (["--mesh", "row:2,col:0"], "found 'row:2,col:0'"),
        (["--steps", "many"], "--steps: expected a number of steps from 1 on, found"),
        (["--precision", "f16"], "--precision: expected f32 or bf16, found 'f16'"),
        (["--steps"], "expected a value after '--steps'"),
        (["--colour"], "unknown argument '--colour' (expected --mesh, --strategy,"),
    ],
)
def test_quickstart_says_what_it_expects(arguments, message):
    result = call([str(REPOSITORY / "scripts/quickstart"), *arguments])
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


def test_the_notebooks_folder_is_an_environment(tmp_path):
    for arguments, message in [
        (["--colour"], "unknown argument '--colour' (expected a folder)"),
        (["a", "b"], "expected one folder at most, found 2"),
        ([str(tmp_path)], "%s is no environment of Python; move it away" % tmp_path),
    ]:
        result = call([str(REPOSITORY / "scripts/notebook"), *arguments])
        assert (result.returncode, result.stdout) == (1, "")
        assert message in result.stderr


def test_no_flag_is_a_pattern_of_tests_for_arm():
    result = call([str(REPOSITORY / "scripts/test-arm"), "--colour"])
    assert (result.returncode, result.stdout) == (1, "")
    assert "unknown argument '--colour' (expected a pattern" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "expected a target (ir programs csv"),
        (["csv", "soon"], "expected a number of seconds, found 'soon'"),
        (["cvs", "1"], "unknown target 'cvs' (expected ir programs csv"),
    ],
)
def test_fuzz_says_what_it_expects(arguments, message):
    result = call([str(REPOSITORY / "scripts/fuzz"), *arguments])
    assert (result.returncode, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    result = call([str(REPOSITORY / "scripts" / script), "--help"])
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: scripts/%s" % script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_unknown_argument(script):
    result = call([str(REPOSITORY / "scripts" / script), "--no-such-flag", "x"])
    assert result.returncode == 1
    assert "'--no-such-flag'" in result.stderr


def test_continuous_integration_runs_every_test():
    assert "scripts/test" in (REPOSITORY / ".ci" / "run").read_text()


def test_what_takes_turns_is_there(tools):
    """Each name in scripts/test is a test of ctest, or it would run every time."""
    script = (REPOSITORY / "scripts/test").read_text()
    (turns,) = re.findall(r"^spills=.*?^\)$", script, re.M | re.S)
    names = succeed(call(["bash", "-c", turns + "\nprintf '%s\\n' \"${in_turn[@]}\""]))
    build = tools.binaries.resolve().parent
    listed = succeed(call(["ctest", "--test-dir", str(build), "--show-only"]))
    found = set(re.findall(r"^ +Test +#\d+: (\S+)", listed, re.M))
    wanted = set(names.splitlines())
    if not any("Mpi" in name for name in found):
        wanted = {name for name in wanted if "Mpi" not in name}
    assert len(wanted) > 20 and wanted <= found, wanted - found
