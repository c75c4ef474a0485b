from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

version: str

def at_end(call: Optional[Callable[[str], None]]) -> None: ...

class ModelLibrary:
    def __init__(self, path: str, inspect: bool = False) -> None: ...
    @property
    def path(self) -> str: ...
    @property
    def manifest(self) -> str: ...
    @property
    def generation(self) -> Dict[str, int]: ...

class World:
    """The ranks of a job, as the launcher or the arguments say (docs/launchers.md)."""

    def __init__(
        self,
        *,
        backend: str = "",
        rendezvous: str = "",
        secret_file: str = "",
        bind: str = "",
        rank: Optional[int] = None,
        ranks: Optional[int] = None,
        timeout: float = 120.0,
    ) -> None: ...
    @property
    def backend(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def first_rank(self) -> int: ...
    @property
    def local_ranks(self) -> int: ...

class Shard:
    """What a rank of this process has of a tensor, as DLPack 1.0 shows it."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...

class Session:
    def __init__(
        self,
        library: ModelLibrary,
        world: World,
        kinds: Sequence[str],
        hyperparameters: Dict[str, Union[int, float, str, None]],
        seed: int,
        threads_per_rank: int,
        document_end: Optional[int],
        scratch_folder: str,
        host_pages: int,
        flush_subnormals: bool,
    ) -> None: ...
    def train(
        self, tokens: np.ndarray, targets: np.ndarray, lr: Optional[float] = None
    ) -> Tuple[float, float, int]: ...
    def eval(self, tokens: np.ndarray, targets: np.ndarray) -> Tuple[float, float, int]: ...
    def forward(self, tokens: np.ndarray) -> Optional[np.ndarray]: ...
    def add_text(
        self,
        prompt: List[int],
        *,
        max_tokens: int = 0,
        stops: List[List[int]] = [],
        logit_bias: Dict[int, float] = {},
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        alternative: int = 0,
        copying_penalty: Optional[float] = None,
        copying_source: Optional[List[int]] = None,
        copying_exceptions: Set[int] = set(),
        continuation: List[int] = [],
        logprobs: Optional[int] = None,
        beams: int = 1,
        length_penalty: float = 1.0,
    ) -> int: ...
    def generate_step(
        self,
        parts: List[Tuple[int, List[int], Optional[str], float, List[Tuple[int, float]]]],
    ) -> None: ...
    @property
    def has_texts(self) -> bool: ...
    def generation_counters(self) -> Dict[str, int]: ...
    def cancel_text(self, text: int) -> None: ...
    def initialize(self, seed: int) -> None: ...
    def load(
        self, folder: str, weights_only: bool, ignore: List[str], base: str
    ) -> List[str]: ...
    def save(self, folder: str, overwrite: bool) -> None: ...
    def names(self, lifetime: str) -> List[str]: ...
    def gather(self, name: str) -> Optional[np.ndarray]: ...
    def assign(self, name: str, values: np.ndarray) -> None: ...
    def shards(self, name: str) -> List[np.ndarray]: ...
    def dlpack(self, name: str) -> List[Shard]: ...
    def memory(self) -> Dict[str, int]: ...
    def communication(self) -> Dict[str, Any]: ...
    def hyperparameters(self) -> Dict[str, Union[int, float, str]]: ...
    @property
    def step(self) -> int: ...
    @property
    def seed(self) -> int: ...
    def share(self, said: bytes) -> bytes: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
