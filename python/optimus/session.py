# ===- session.py - A model in memory -----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs model libraries on the ranks of a mesh (docs/python.md)."""

import atexit
import difflib
import json
import os
import weakref
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

import numpy as np

from optimus import runtime
from optimus.compiler import Library
from optimus.generator import Generator, Text

_runtime = runtime.module()

World = _runtime.World

HYPERPARAMETERS = (
    *("steps", "lr", "schedule", "warmup", "min_lr", "decay_steps"),
    *("weight_decay", "clip"),
    *("beta1", "beta2", "epsilon", "momentum", "microbatches"),
)


class Step(NamedTuple):
    """What a step of training has come to."""

    loss: float
    """The mean cross-entropy of the real targets, in nats, before the update."""
    grad_norm: float
    """Of the mean loss's gradient, before clipping."""
    tokens: int
    """Real targets."""
    step: int
    """Its number, from 1 on."""


class Evaluation(NamedTuple):
    """The loss of a batch."""

    loss: float
    """The mean cross-entropy of the real targets, in nats."""
    tokens: int
    """Real targets; without any the loss is 0."""


class _Tensors(Mapping[str, np.ndarray]):
    """Whole tensors by name, copied from the ranks' shards when they are read."""

    def __init__(self, session: "Session", lifetime: str):
        self._session = session
        self._lifetime = lifetime

    def _find(self, name: str) -> str:
        names = self._names()
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 3) or names[:3]
            raise KeyError(
                "there is none called %s among %d; some are %s"
                % (name, len(names), ", ".join(near))
            )
        return name

    def _names(self) -> List[str]:
        return self._session._bound.names(self._lifetime)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._session._bound.gather(self._find(name))

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        self._session._bound.assign(self._find(name), values)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    @property
    def shards(self) -> "_Shards":
        """What ranks of this process hold of each."""
        return _Shards(self)


class _Shards(Mapping[str, List[np.ndarray]]):
    """The parts of tensors that ranks of this process hold, by name and then by rank,
    from the process's first rank on: read-only arrays of the memory itself, padding
    included, or copies where a device's memory is out of the host's reach.

    They change with every step, and keep the memory of a closed session.
    """

    def __init__(self, tensors: _Tensors):
        self._tensors = tensors

    def __getitem__(self, name: str) -> List[np.ndarray]:
        return self._tensors._session._bound.shards(self._tensors._find(name))

    def dlpack(self, name: str) -> List[Any]:
        """The same for other libraries, as `torch.from_dlpack(shard)`: bf16 is bf16. A
        view keeps the memory of a closed session; none is given to other threads, and so
        none during a call. Read-only memory needs a reader of DLPack 1.0."""
        return self._tensors._session._bound.dlpack(self._tensors._find(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class Session:
    """A model library in the memory of its ranks.

    Ranks are threads of this process; a script that mpirun, srun or torchrun has started
    is one rank of a job, and all processes make the same calls with the same arguments.
    Parameters have their initial values, drawn from `seed`, until something is loaded.

    `kinds` are the kinds of functions that there is memory for: "train", "eval",
    "forward" and "generate"; without any, those that the library has. `threads_per_rank` is 0 for the
    machine's cores divided among its ranks. `document_end` is the last token of a
    document, for models that keep documents apart. Files of values that the library
    offloads are made in `scratch_folder`. `host_pages` pages of a cache that has pages
    may be in host memory besides (docs/inference.md#pages). With `flush_subnormals`
    numbers below 1.2e-38 count as zero, as with `optimus-run --flush-subnormals`.

    The hyperparameters are those of `optimus-run train`, and have its defaults: `steps`,
    `lr`, `schedule`, `warmup`, `min_lr`, `decay_steps`, `weight_decay`, `clip`, `beta1`,
    `beta2`, `epsilon`, `momentum`, `microbatches`. A loaded checkpoint sets those that are not given.

    Raises InvalidArgumentError for what does not fit the library, UnavailableError
    where memory, threads or other ranks are missing, and UsageError from another thread
    or a forked process. A failed call changes nothing, unless it says so.
    """

    def __init__(
        self,
        library: "Union[Library, str, os.PathLike[str]]",
        *,
        world: Optional[Any] = None,
        kinds: Sequence[str] = (),
        seed: int = 0,
        threads_per_rank: int = 0,
        document_end: Optional[int] = None,
        scratch_folder: str = "/tmp",
        host_pages: int = 0,
        flush_subnormals: bool = False,
        **hyperparameters: Union[int, float, str, None],
    ):
        unknown = sorted(set(hyperparameters) - set(HYPERPARAMETERS))
        if unknown:
            message = "there is no hyperparameter %s; there are %s"
            raise TypeError(message % (unknown[0], ", ".join(HYPERPARAMETERS)))
        path = library.path if isinstance(library, Library) else library
        self.library = library if isinstance(library, Library) else Library(library)
        opened = _runtime.ModelLibrary(os.fspath(path))
        self._model: Dict[str, int] = json.loads(opened.manifest)["model"]
        self.world = _find_world() if world is None else world
        self._bound = _runtime.Session(
            opened,
            self.world,
            [kinds] if isinstance(kinds, str) else list(kinds),
            hyperparameters,
            seed,
            threads_per_rank,
            document_end,
            scratch_folder,
            host_pages,
            flush_subnormals,
        )
        self.generator = Generator(self)
        _open.add(self)

    def train_step(
        self, tokens: np.ndarray, targets: np.ndarray, lr: Optional[float] = None
    ) -> Step:
        """Takes a step of training.

        `tokens` and `targets` are [batch * microbatches, sequence] of int32 or int64,
        rows behind each other in memory: the whole batch of all ranks. A target below 0
        is not real. `lr` takes the place of the schedule's rate.
        """
        loss, norm, count = self._bound.train(tokens, targets, lr)
        return Step(loss, norm, count, self._bound.step)

    def eval_step(self, tokens: np.ndarray, targets: np.ndarray) -> Evaluation:
        """The loss of a batch, or of fewer sequences: [n, sequence], n <= batch."""
        loss, _, count = self._bound.eval(tokens, targets)
        return Evaluation(loss, count)

    def forward(self, tokens: np.ndarray) -> Optional[np.ndarray]:
        """The logits [n, sequence, vocabulary] of n <= batch sequences, or the hidden
        states of a model without a head. None in processes without rank 0."""
        return self._bound.forward(tokens)

    def generate(self, prompt: Sequence[int], **how: Any) -> Text:
        """Generates the tokens that follow a prompt. The library's model was built with
        --generate (docs/inference.md).

        An iterator of tokens: at most `max_tokens`, or as many as the cache has place
        for. A text ends before each of `stops`, lists of tokens. The token of the
        highest logit follows, unless `how` says otherwise: `temperature`, `top_k`,
        `top_p`, `min_p`, `repetition_penalty`, `presence_penalty`, `frequency_penalty`,
        `copying_penalty`, `copying_source`, `copying_exceptions`, `logit_bias`, `seed`,
        `alternative`. `logprobs`, a number k from 0 on, asks for `scores` with the k
        most probable tokens of each place. If there is a `continuation`, its tokens
        follow, and nothing is chosen. `beams`, a number above 1, goes on with so many of
        the most probable beginnings, each in a slot, and has the best text at its end;
        scores are divided by the length to the power of `length_penalty`.

        Several texts can be under way: a step that one waits for adds a token to each.
        Raises InvalidArgumentError for a prompt beyond the context or the vocabulary, and
        for options out of range.
        """
        return self.generator.submit(prompt, **how)

    def share(self, said: bytes) -> bytes:
        """What the process of rank 0 says, in every process of a job."""
        return self._bound.share(said)

    @property
    def parameters(self) -> _Tensors:
        """The parameters by their names in checkpoints.

        `parameters[name]` is a new array of the whole tensor, float32 in the
        checkpoint's shape (None in processes without rank 0), assignment sets it, and
        `parameters.shards[name]` is what each rank has of it.
        """
        return _Tensors(self, "parameter")

    @property
    def state(self) -> _Tensors:
        """What the optimizer keeps, alike."""
        return _Tensors(self, "state")

    def initialize(self, seed: int = 0) -> None:
        """Sets all to initial values; the next step is the first."""
        self._bound.initialize(seed)

    def load(
        self,
        folder: "Union[str, os.PathLike[str]]",
        *,
        weights_only: bool = False,
        ignore: Sequence[str] = (),
        base: "Union[str, os.PathLike[str]]" = "",
    ) -> List[str]:
        """Takes the checkpoint in a folder, and goes on from its step if this session
        trains; or a folder of weights, as Hugging Face's, without the tensors of the
        patterns `ignore`. `weights_only` takes the parameters of a checkpoint alone; `base`
        is the folder of the weights that adapters alone are beside, where they name another
        one.

        Returns notes on what differs. After a DataLossError or UnavailableError the
        parameters may be half of the old ones: load() or initialize() before going on.
        """
        return self._bound.load(os.fspath(folder), weights_only, list(ignore), os.fspath(base))

    def save(self, folder: "Union[str, os.PathLike[str]]", *, overwrite: bool = False) -> None:
        """Writes a checkpoint, whole or not at all: parameters, the optimizer's state and
        the step. Of adapters beside loaded weights it holds the adapters alone. A folder
        with a checkpoint that this session has neither loaded nor saved is replaced only
        with `overwrite`."""
        self._bound.save(os.fspath(folder), overwrite)

    @property
    def memory(self) -> Dict[str, int]:
        """Bytes of the rank that holds most, as `memory` of `optimus-run bench --json`."""
        return self._bound.memory()

    @property
    def communication(self) -> Dict[str, Any]:
        """Of the last call: `axes` with bytes and messages of each axis of the mesh, and
        `ms` in flight and exposed of the rank that waited longest."""
        return self._bound.communication()

    @property
    def hyperparameters(self) -> Dict[str, Union[int, float, str]]:
        """As they are now."""
        return self._bound.hyperparameters()

    @property
    def step(self) -> int:
        """Steps taken, by this session and those that it goes on from."""
        return self._bound.step

    @property
    def seed(self) -> int:
        """Of initial values and random draws."""
        return self._bound.seed

    @property
    def batch(self) -> int:
        """Sequences of a call; of a step, times `microbatches`."""
        return self._model["batch"]

    @property
    def sequence(self) -> int:
        """Tokens of a sequence."""
        return self._model["sequence"]

    @property
    def vocabulary(self) -> int:
        """Tokens are below it."""
        return self._model["vocabulary"]

    @property
    def closed(self) -> bool:
        return self._bound.closed

    def close(self) -> None:
        """Gives the memory back, unless arrays of shards still show it."""
        self._bound.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_open: "weakref.WeakSet[Session]" = weakref.WeakSet()
_job: Optional[Any] = None
"""The ranks of a job of several processes, which is joined once."""


def _find_world() -> Any:
    global _job
    if _job is not None:
        return _job
    world = World()
    if world.backend != "local":
        _job = world
    return world


@atexit.register
def _close_all() -> None:
    """While the interpreter is whole: ranks of other processes wait for the farewell."""
    global _job
    for session in list(_open):
        try:
            session.close()
        except Exception:
            pass
    _job = None
