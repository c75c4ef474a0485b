# ===- test_python_session.py - A model in memory, from Python ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Session computes as optimus-run does, to the bit, and shows what it holds."""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from test_launchers import by_torchrun, finish, start
from tools import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    Checkpoint,
    Model,
    call,
    default_signals,
    mpirun,
    succeed,
)

MODEL = Model(2, 32, 4, 16, 256, 4, dropout=0.1)
STEPS, SEED = 4, 5


@pytest.fixture(scope="module")
def library(tools):
    flags = ("row:2,col:2", "summa", "--accumulate")
    return tools.library(MODEL, *flags, functions="loss,forward")


def batches(text_tokens, sequences):
    """Those of `optimus-run train --order sequential`, for ever."""
    position, length = 0, MODEL.sequence
    windows = (len(text_tokens) - 1) // length
    while True:
        first = [(position + row) % windows * length for row in range(sequences)]
        rows = [text_tokens[begin : begin + length + 1] for begin in first]
        batch = np.array(rows, np.int32)
        yield batch[:, :-1].copy(), batch[:, 1:].copy()
        position += sequences


@pytest.mark.parametrize("microbatches", [1, 2])
def test_steps_are_those_of_optimus_run(
    optimus, tools, library, text, text_tokens, tmp_path, microbatches
):
    flags = ["--seed", SEED, "--microbatches", microbatches, "--save", tmp_path / "theirs"]
    log = tools.train(library, text, STEPS, *flags, log=tmp_path / "log")
    settings = {"steps": STEPS, "seed": SEED, "microbatches": microbatches}
    with optimus.Session(library, kinds="train", **settings) as session:
        data = batches(text_tokens, MODEL.batch * microbatches)
        steps = [session.train_step(*next(data)) for _ in range(STEPS)]
        session.save(tmp_path / "ours")
        moved = sum(axis["bytes"] for axis in session.communication["axes"])
        largest = session.memory["total"]
    keys = ("step", "loss", "grad_norm")
    assert [[getattr(step, key) for key in keys] for step in steps] == [
        [line[key] for key in keys] for line in log
    ]
    assert (moved, largest) == (log[-1]["comm_bytes"], log[-1]["peak_bytes"])
    assert steps[0].tokens == MODEL.batch * microbatches * MODEL.sequence
    for file in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = ((tmp_path / name / file).read_bytes() for name in ("ours", "theirs"))
        assert ours == theirs
    # It goes on from there.
    settings["steps"] = 2 * STEPS
    log = tools.train(
        *(library, text, 2 * STEPS, "--load", tmp_path / "theirs"), log=tmp_path / "more"
    )
    with optimus.Session(library, **settings) as session:
        assert session.load(tmp_path / "ours") == []
        assert session.step == STEPS and session.seed == SEED
        assert [session.train_step(*next(data)).loss for _ in log] == [
            line["loss"] for line in log
        ]


SCRIPT = """
import sys
import numpy as np
import optimus

rows = np.load(sys.argv[2])[: 16 * 20].reshape(20, 16).astype(np.int64)
session = optimus.Session(sys.argv[1], seed=1)
losses = [session.train_step(rows[i : i + 4], rows[i + 1 : i + 5]).loss for i in range(3)]
logits = session.forward(rows[:2])
session.parameters["wpe.weight"] = np.ones((16, 32), np.float32)
whole = session.parameters["wpe.weight"]
try:
    session.train_step(rows[:4] + 300, rows[:4])
except optimus.InvalidArgumentError as error:
    refused = str(error)
loss = session.eval_step(rows[:4], rows[1:5]).loss
held = len(session.parameters.shards["wpe.weight"])
session.close()
with optimus.Session(sys.argv[1], seed=1) as again:
    assert again.train_step(rows[:4], rows[1:5]).loss == losses[0]
if logits is None:
    assert whole is None and held == 1
else:
    assert (whole == 1).all()
    print(losses, loss, logits.sum(dtype=float), refused)
"""


@pytest.mark.variants
@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_processes_take_the_same_steps(
    optimus, python_folder, library, text_tokens, tmp_path, launcher
):
    np.save(tmp_path / "text.npy", text_tokens)
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = [str(python_folder), str(REPOSITORY / "python")]
    environment = dict(os.environ, PYTHONPATH=":".join(paths))
    files = [tmp_path / "script.py", library, tmp_path / "text.npy"]
    command = [sys.executable, *map(str, files)]
    threads = succeed(call(command, env=environment))
    assert "from 0 to 255; found " in threads
    if launcher == "mpirun":
        assert succeed(call([*mpirun(4), *command], env=environment)) == threads
        return
    results = finish(start(["env", "PYTHONPATH=" + environment["PYTHONPATH"], *command], by_torchrun))
    assert [(code, said) for code, said, _ in results] == [(0, threads)] + 3 * [(0, "")], results


def test_logits_and_losses_are_those_of_optimus_run(
    optimus, tools, library, text, text_tokens, tmp_path
):
    given = [library, "--data", text, "--seed", SEED]
    tools.run("optimus-run", "forward", *given, "--windows", 7, "-o", tmp_path / "all.npy")
    expected = np.load(tmp_path / "all.npy")
    data = batches(text_tokens, MODEL.batch)
    with optimus.Session(library, kinds=("eval", "forward"), seed=SEED) as session:
        (tokens, targets), (more, _) = next(data), next(data)
        found = np.concatenate([session.forward(tokens), session.forward(more[:3])])
        assert found.shape == expected.shape and found.tobytes() == expected.tobytes()
        # By the logits themselves; targets below 0 are not real.
        targets[1, 3:] = -1
        shifted = expected[:4].astype(float) - expected[:4].max(axis=2, keepdims=True)
        losses = np.log(np.exp(shifted).sum(axis=2)) - np.take_along_axis(
            shifted, np.maximum(targets, 0)[..., None].astype(int), 2
        ).squeeze(2)
        evaluation = session.eval_step(tokens, targets)
        real = targets >= 0
        assert evaluation.tokens == real.sum()
        # A sum of some 50 numbers in f32.
        assert evaluation.loss == pytest.approx(losses[real].mean(), rel=64 * 2.0**-24)
        alone = session.eval_step(tokens[:1].astype(np.int64), targets[:1])
        assert alone.loss == pytest.approx(losses[0].mean(), rel=64 * 2.0**-24)
        with pytest.raises(optimus.InvalidArgumentError, match="made for eval, forward"):
            session.train_step(tokens, targets)


def test_parameters_are_whole_tensors_and_shards(optimus, tools, library, text, tmp_path):
    theirs = tools.initial(library, text, tmp_path / "saved", seed=SEED).parameters
    session = optimus.Session(library, seed=SEED)
    ours = session.parameters
    assert set(ours) == set(theirs) and len(ours) == len(theirs)
    for name, values in theirs.items():
        assert ours[name].shape == values.shape and ours[name].tobytes() == values.tobytes()
    assert set(session.state) == {
        kind + ":" + name for kind in ("exp_avg", "exp_avg_sq") for name in ours
    }
    # The table is [{col}, {row}]: ranks (0, 0), (0, 1), (1, 0), (1, 1).
    name, whole = "wte.weight", ours["wte.weight"]
    shards = ours.shards[name]
    top, bottom = np.split(whole, 2)
    quarters = [np.split(half, 2, axis=1) for half in (top, bottom)]
    for rank, shard in enumerate(shards):
        assert (shard == quarters[rank % 2][rank // 2]).all()
    with pytest.raises(ValueError, match="read-only"):
        shards[0][0, 0] = 1
    changed = np.arange(whole.size, dtype=np.float32).reshape(whole.shape)
    ours[name] = changed
    assert (ours[name] == changed).all()
    # They show the memory itself, and keep it.
    assert shards[3][-1, -1] == changed.size - 1
    session.close()
    assert session.closed and shards[3][-1, -1] == changed.size - 1
    with pytest.raises(optimus.UsageError, match="expected an open Session, found one that was"):
        ours[name]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned of DLPack 1.0."""

    _fields_ = [
        *[("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)],
        *[("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)],
        *[("flags", ctypes.c_uint64), ("data", ctypes.c_void_p)],
        *[("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32)],
        *[("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)],
        *[("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))],
        ("offset", ctypes.c_uint64),
    ]


def opened(capsule):
    """What a capsule shows, as long as it lives."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = Managed.from_address(read(capsule, b"dltensor_versioned"))
    shape = managed.shape[: managed.rank]
    elements = (ctypes.c_float * math.prod(shape)).from_address(managed.data)
    return managed, np.frombuffer(elements, np.float32).reshape(shape)


def test_shards_are_shown_by_dlpack(optimus, library):
    session = optimus.Session(library, seed=SEED)
    shards = session.parameters.shards
    for shard, array in zip(shards.dlpack("wte.weight"), shards["wte.weight"]):
        assert shard.__dlpack_device__() == (1, 0)
        capsule = shard.__dlpack__(max_version=(1, 0))
        managed, values = opened(capsule)
        assert (managed.code, managed.bits, managed.lanes, managed.device) == (2, 32, 1, 1)
        assert managed.strides[: managed.rank] == [array.shape[1], 1]
        # The memory itself, read-only.
        assert managed.flags == 1 and managed.data == array.ctypes.data
        assert values.shape == array.shape and (values == array).all()
    copy = shard.__dlpack__(max_version=(1, 1), copy=True)
    managed, copied = opened(copy)
    assert managed.flags == 2 and managed.data != array.ctypes.data
    for how, message in [
        ({}, "expected a reader of DLPack 1.0 or later, since shards are read-only"),
        (dict(max_version=(0, 8)), r"found \(0, 8\) for max_version"),
        (dict(max_version=(1, 0), dl_device=(2, 0)), r"found \(2, 0\) for dl_device"),
    ]:
        with pytest.raises(BufferError, match=message):
            shard.__dlpack__(**how)
    # Other threads alone could ask during a call.
    raised = []

    def ask():
        try:
            shard.__dlpack__(max_version=(1, 0))
        except optimus.UsageError as error:
            raised.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(raised) == 1 and "thread" in raised[0]
    expected = array.copy()
    session.initialize(SEED + 1)
    assert (values == array).all() and (copied == expected).all()
    assert not (values == expected).all()
    del array
    session.close()
    # The view keeps the memory of the session.
    assert np.isfinite(values).all() and (copied == expected).all()
    with pytest.raises(optimus.UsageError, match="expected an open Session"):
        shard.__dlpack__(max_version=(1, 0))


def test_a_mistake_says_what_was_expected_and_changes_nothing(optimus, library, text_tokens):
    tokens, targets = next(batches(text_tokens, MODEL.batch))
    wide = np.zeros((4, 32), np.int32)
    session = optimus.Session(library, seed=SEED)
    first = session.train_step(tokens, targets)
    session.initialize(SEED)

    def step(*arguments, **named):
        return lambda: session.train_step(*arguments, **named)

    far = tokens.astype(np.int64)
    far[2, 5] = 2**40
    expected = {
        "expected a NumPy array of int32 or int64, found list": step([[1]], targets),
        "found one of float64": step(tokens.astype(float), targets),
        "found one of >i4": step(tokens.astype(">i4"), targets),
        r"expected the shape \(sequences, 16\), found \(4, 32\)": step(wide, targets),
        r"targets: expected the shape \(sequences, 16\), found \(64,\)": step(tokens, targets.ravel()),
        r"strides of \(128, 8\) bytes .*; numpy.ascontiguousarray": step(wide[:, ::2], targets),
        "tokens: expected 4 sequences of 16 tokens, found 3": step(tokens[:3], targets[:3]),
        "targets: expected as many as tokens, 64; found 48": step(tokens, targets[:3]),
        "from 0 to 255; found -1 at row 0": step(tokens - tokens - 1, targets),
        "from 0 to 255, or -1 for none; found 999 at row 0": step(tokens, targets * 0 + 999),
        "expected numbers of 32 bits, found 1099511627776 at row 2, column 5": step(far, targets),
        "lr: expected a number of at least 0, found nan": step(tokens, targets, lr=np.nan),
        "expected from 1 to 4 sequences of 16 tokens, found 0": lambda: session.forward(tokens[:0]),
        r"expected the shape \(256, 32\), found \(2,\)": lambda: session.parameters.__setitem__(
            "wte.weight", np.zeros(2, np.float32)
        ),
        "expected a NumPy array of float32, found one of float64": lambda: (
            session.parameters.__setitem__("wte.weight", np.zeros((256, 32)))
        ),
        "there is no checkpoint at": lambda: session.load("/nowhere"),
        "lr: expected a number of at least 0, found -1": lambda: optimus.Session(library, lr=-1),
        "schedule: expected constant, cosine, linear, wsd or inverse-sqrt, found": lambda: optimus.Session(library, schedule=3),
        "kinds: expected train, eval, forward or generate, found other": lambda: (
            optimus.Session(library, kinds="other")
        ),
        "document_end 3: .* sees all of a sequence": lambda: (
            optimus.Session(library, document_end=3)
        ),
        "`/nowhere.so` does not exist": lambda: optimus.Session("/nowhere.so"),
    }
    for message, call in expected.items():
        with pytest.raises((ValueError, TypeError), match=message) as raised:
            call()
        assert isinstance(raised.value, optimus.Error)
    with pytest.raises(KeyError, match="there is none called nothing among [0-9]+; some are wte"):
        session.parameters["nothing"]
    with pytest.raises(KeyError, match="none called wte.wieght among [0-9]+; some are wte.weight"):
        session.parameters["wte.wieght"]
    with pytest.raises(TypeError, match="no hyperparameter rate; there are steps, lr"):
        optimus.Session(library, rate=1)
    assert session.train_step(tokens, targets) == first


def test_only_its_thread_and_process_may_use_it(optimus, library, text_tokens):
    tokens, targets = next(batches(text_tokens, MODEL.batch))
    session = optimus.Session(library)
    caught = []

    def elsewhere():
        try:
            session.eval_step(tokens, targets)
        except optimus.UsageError as error:
            caught.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "expected thread" in caught[0] and "make all calls on one thread" in caught[0]
    child = os.fork()
    if child == 0:
        elsewhere()
        session.close()
        os._exit(0 if len(caught) == 2 and "forked" in caught[1] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert session.eval_step(tokens, targets).tokens == tokens.size


def test_a_world_has_one_session(optimus, library):
    world = optimus.World()
    assert (world.backend, world.first_rank) == ("local", 0)
    session = optimus.Session(library, world=world)
    shards = session.parameters.shards["wte.weight"]
    assert world.size == world.local_ranks == 4
    session.close()
    with pytest.raises(optimus.UsageError, match="expected a World without a session"):
        optimus.Session(library, world=world)
    del shards
    optimus.Session(library, world=world).close()


def test_what_a_failed_load_leaves_is_not_used(optimus, library, text_tokens, tmp_path):
    tokens, targets = next(batches(text_tokens, MODEL.batch))
    session = optimus.Session(library, seed=SEED)
    first = session.train_step(tokens, targets)
    session.save(tmp_path / "saved")
    file = tmp_path / "saved/model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(optimus.DataLossError, match="model.safetensors"):
        session.load(tmp_path / "saved")
    with pytest.raises(optimus.UnavailableError, match="load.. again, or initialize"):
        session.train_step(tokens, targets)
    session.initialize(SEED)
    assert session.train_step(tokens, targets) == first


def test_a_checkpoint_of_others_is_not_replaced(optimus, library, tmp_path):
    folder = tmp_path / "saved"
    with optimus.Session(library) as session:
        session.save(folder)
        session.save(folder)
    with optimus.Session(library) as session:
        with pytest.raises(optimus.InvalidArgumentError, match="has a checkpoint of step 0, which"):
            session.save(folder)
        session.save(folder, overwrite=True)
    with optimus.Session(library, kinds="forward") as session:
        assert session.load(folder) == []
        with pytest.raises(optimus.InvalidArgumentError, match="no memory for the kind train"):
            session.save(folder)
    assert Checkpoint(folder).state["step"] == 0


def test_texts_are_those_of_optimus_run(optimus, tools, tmp_path):
    model = Model(1, 16, 2, sequence=12, vocabulary=19, batch=2, init_std=0.3)
    extents = "slots=2,context=12,chunk=3"
    mesh = ("row:1,col:2", "summa")
    library = tools.library(model, *mesh, functions=None, generate=extents)
    prompts = np.random.default_rng(3).integers(0, 19, (3, 5)).tolist()
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    flags = ["--temperature", 0.8, "--seed", 4, "--max-tokens", 6]
    said = tools.run("optimus-run", "generate", library, "--tokens", file, *flags)
    expected = [json.loads(line)["tokens"] for line in said.splitlines()]
    session = optimus.Session(library, seed=4)
    how = {"temperature": 0.8, "seed": 4, "max_tokens": 6}
    # More than there are slots for; read one by one, in turn.
    texts = [session.generate(prompt, **how) for prompt in prompts]
    assert [list(each) for each in zip(*texts)] == [list(each) for each in zip(*expected)]
    assert [text.finish for text in texts] == 3 * ["length"]
    stop = expected[1][2:4]
    before = next(i for i in range(3) if expected[1][i : i + 2] == stop)
    stopped = session.generate(prompts[1], stops=[stop], **how)
    assert list(stopped) == expected[1][:before] and stopped.finish == "stop"
    # A dropped text leaves its slot to others.
    for _ in range(4):
        next(session.generate(prompts[0]))
    text = session.generate(prompts[0], **how)
    next(text)
    text.cancel()
    assert list(text) == [] and text.finish == "cancelled"
    for message, call in {
        "token 0 of the prompt is 19; expected one of": lambda: session.generate([19]),
        "prompt: expected tokens from 0 on, found -1": lambda: session.generate([-1]),
        "prompt: expected a sequence of whole numbers": lambda: session.generate([0.5]),
        "temperature": lambda: session.generate([1], temperature=-1),
    }.items():
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    with pytest.raises(optimus.InvalidArgumentError, match="made for prefill, decode"):
        session.forward(np.zeros((1, 12), np.int32))


@pytest.mark.parametrize("mesh", [(), ("row:2,col:2", "summa")])
def test_tokens_have_their_log_probabilities(optimus, tools, mesh):
    model = Model(1, 16, 2, sequence=12, vocabulary=19, batch=2, init_std=0.3)
    extents = "slots=2,context=12,chunk=3"
    library = tools.library(model, *mesh, functions=None, generate=extents)
    session = optimus.Session(library, seed=4)
    text = session.generate([1, 2, 3], max_tokens=6, logprobs=2)
    tokens = list(text)
    assert [next(iter(score.best)) for score in text.scores] == tokens
    for score in text.scores:
        assert list(score.best.values()) == sorted(score.best.values(), reverse=True)
        assert score.logprob == max(score.best.values())
    every = session.generate([1, 2, 3], max_tokens=1, logprobs=19)
    next(every)
    assert sum(np.exp(list(every.scores[0].best.values()))) == pytest.approx(1, abs=1e-12)
    # What is given has the same probabilities but for rounding, chunk by chunk, and a
    # stop has none.
    before = session.generator.counters
    given = session.generate([1, 2, 3], continuation=tokens, logprobs=0)
    assert list(given) == tokens
    found, expected = ([each.logprob for each in one.scores] for one in (given, text))
    assert found == pytest.approx(expected, abs=1e-5)
    assert given.scores[0].best == {}
    after = session.generator.counters
    assert after["prefills"] - before["prefills"] == 3
    assert after["decodes"] == before["decodes"]
    # And the most probable ones, of which each rank knows its part's.
    again = session.generate([1, 2, 3], continuation=tokens, logprobs=2)
    list(again)
    for one, other, same in zip(again.scores, text.scores, given.scores):
        assert one.logprob == same.logprob
        assert one.best == pytest.approx(other.best, abs=1e-5)
        assert list(one.best) == list(other.best)
    drawn = list(session.generate([1, 2, 3], max_tokens=6, temperature=3, seed=1))
    assert len(set(drawn)) == 6
    how = {"max_tokens": 6, "temperature": 3, "seed": 1}
    stopped = session.generate([1, 2, 3], stops=[drawn[2:4]], logprobs=0, **how)
    assert list(stopped) == drawn[:2] and len(stopped.scores) == 2
    assert session.generate([1]).scores == []
    best = list(session.generate([1, 2, 3], max_tokens=6, beams=2, length_penalty=0))
    scores = session.generate([1, 2, 3], continuation=best, logprobs=0)
    assert len(list(scores)) == len(best) == 6
    assert sum(score.logprob for score in scores.scores) > -math.inf
    copying = session.generate([1, 2, 3], max_tokens=6, copying_penalty=1e-300)
    assert not set(copying) & {1, 2, 3}
    with pytest.raises(optimus.InvalidArgumentError, match="logprobs: expected a number from 0"):
        session.generate([1], logprobs=20)


def test_an_interrupt_between_steps_loses_nothing(optimus, tools):
    model = Model(1, 16, 2, sequence=64, vocabulary=19, batch=2, init_std=0.3)
    library = tools.library(model, functions=None, generate="slots=2,context=64,chunk=3")
    session = optimus.Session(library, seed=4)
    whole = [list(session.generate(prompt)) for prompt in ([1, 2], [3])]
    generator = session.generator
    before = generator.counters
    texts = [generator.submit(prompt) for prompt in ([1, 2], [3])]
    steps = 0
    while generator.has_work:
        try:
            if steps % 3 == 0:
                signal.raise_signal(signal.SIGINT)
            generator.step()
        except KeyboardInterrupt:
            pass
        steps += 1
    assert [text.tokens for text in texts] == whole
    assert [text.finish for text in texts] == ["length", "length"]
    made = {name: generator.counters[name] - before[name] for name in before}
    assert made["generated_tokens"] == sum(map(len, whole)) and made["prefills"] == 1
    assert session.share(b"said") == b"said"


def test_other_threads_run_during_a_step(optimus, tools):
    """Steps of some 50 ms: the interpreter's lock is free meanwhile."""
    model = Model(2, 256, 4, 128, 256, 8)
    session = optimus.Session(tools.library(model))
    tokens = np.zeros((8, 128), np.int32)
    session.train_step(tokens, tokens)
    seen, done = [], threading.Event()

    def watch():
        while not done.is_set():
            seen.append(time.perf_counter())
            time.sleep(1e-3)

    thread = threading.Thread(target=watch)
    thread.start()
    begin = time.perf_counter()
    session.train_step(tokens, tokens)
    end = time.perf_counter()
    done.set()
    thread.join()
    quarter = (end - begin) / 4
    assert any(begin + quarter < moment < end - quarter for moment in seen)


def test_control_c_ends_between_steps(optimus, python_folder, library, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import sys
import numpy as np
import optimus

tokens = np.zeros((4, 16), np.int32)
session = optimus.Session(sys.argv[1])
try:
    while True:
        session.train_step(tokens, tokens)
        print("step", flush=True)
except KeyboardInterrupt:
    before = session.step
    assert session.train_step(tokens, tokens).step == before + 1
    session.save(sys.argv[2])
    print(before)
"""
    )
    paths = [str(python_folder), str(REPOSITORY / "python")]
    job = subprocess.Popen(
        [sys.executable, str(script), str(library), str(tmp_path / "saved")],
        env=dict(os.environ, PYTHONPATH=":".join(paths)),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )
    assert job.stdout.readline() == "step\n"
    job.send_signal(signal.SIGINT)
    lines = job.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines()
    assert job.returncode == 0
    assert Checkpoint(tmp_path / "saved").state["step"] == int(lines[-1]) + 1
