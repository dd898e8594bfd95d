"""What planning knows of a model (its spec) and what a worker runs (the model)."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

IMAGE_TYPE = "STRUCT(uri VARCHAR, frame BIGINT, data BLOB)"
DETECTIONS_TYPE = (
    "STRUCT(label VARCHAR, score DOUBLE, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE)[]"
)


def classes_type(labels: int) -> str:
    """The output type of a classifier: the best label and every label's probability, in order."""
    return f"STRUCT(label VARCHAR, scores FLOAT[{labels}])"


class Model(Protocol):
    """A loaded model. Only workers hold one; it is called from one thread at a time.

    `prepare` is the exception: decoding threads call it side by side.
    """

    def prepare(self, value: Any) -> Any:
        """One input, made ready: for media an RGB uint8 array (height, width, 3)."""

    def infer(self, prepared: Sequence[Any]) -> Sequence[Any]:
        """One answer an input, in order, as Python values of the spec's output type."""


@dataclass(frozen=True)
class ModelSpec:
    """A model as planning sees it: no weights, no torch.

    `loader` is 'module:function', or for a registered callable the function itself; it is called
    as loader(spec, device) and gives the Model. `min_score` is the default threshold of CONTAINS
    and COUNT_OBJECTS; scores under `score_floor` are not kept. `cost_ms` and `load_ms` are priors,
    replaced by measurements.
    """

    name: str
    task: str  # 'detect' | 'classify' | 'embed' | 'predict'
    output_type: str
    loader: str | Callable[[ModelSpec, str], Model] = field(repr=False)
    input_type: str = IMAGE_TYPE
    labels: tuple[str, ...] = field(default=(), repr=False)
    min_score: float = 0.5
    score_floor: float = 0.0
    batch_size: int = 16
    weights: str = ""  # 'package:path/inside' of the file, or a path
    sha256: str = ""
    version: str = "1"  # of preprocessing and code: a change of either changes the answers
    deterministic: bool = True
    kept: bool = True  # in the cache; not where the answers are larger than the work to get them
    cost_ms: float = 10.0
    load_ms: float = 500.0
    space: str = ""  # embeddings of one space may be compared; '' is the model's own
    licence: str = ""
    origin: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    precisions: tuple[str, ...] = ()  # beside fp32, those that its network can be computed in

    def __deepcopy__(self, memo: object) -> ModelSpec:
        return self  # a value: trees that hold it are copied often

    @property
    def fingerprint(self) -> str:
        """What the outputs depend on beside the input, as 32 hex digits; it keys the cache."""
        parts = (self.task, self.input_type, self.output_type, self.labels, self.score_floor,
                 self.sha256, self.version, self.parameters)
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    def variant(self, precision: str) -> ModelSpec:
        """The model in another precision, with a name and cache key of its own.

        A model that has no such variant is itself: its answers do not depend on the setting.
        """
        if precision not in self.precisions:
            return self
        parameters = (*self.parameters, ("precision", precision))
        return replace(self, name=f"{self.name}/{precision}", parameters=parameters, precisions=())

    @property
    def is_shipped(self) -> bool:
        """Whether the model comes with mlsql, so that its answers are known to be of its type."""
        return isinstance(self.loader, str) and self.loader.startswith("mlsql.udfs.models.")

    @property
    def takes_media(self) -> bool:
        """Whether the input is a picture rather than an SQL value."""
        return self.input_type == IMAGE_TYPE

    def load(self, device: str) -> Model:
        """The model itself, weights checked and loaded; this is where torch comes in."""
        if isinstance(self.loader, str):
            module, _, function = self.loader.partition(":")
            loaded: Model = getattr(importlib.import_module(module), function)(self, device)
            return loaded
        return self.loader(self, device)
