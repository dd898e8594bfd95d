"""A session whose models are small functions that write down what they are asked.

    with Asking() as s:
        s.rows("SELECT sq(x) FROM range(3) t(x)")   # [(0,), (1,), (4,)]
        s.asked("sq")                               # [0, 1, 2]

`eye` is a detector and `kind` a classifier for the pictures of `media_samples.ten_greys`: picture i
shows a cat where i is even, and two dogs, one of them faint, where 3 divides i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import numpy as np

import mlsql
from tests.media_samples import encode_picture, grey, ten_greys

Parameters = Sequence[Any] | Mapping[str, Any] | None
Rows = list[tuple[Any, ...]]

CAT, DOG, FAINT_DOG = ("cat", 0.9, 1, 1, 5, 5), ("dog", 0.8, 1, 1, 5, 5), ("dog", 0.4, 2, 2, 6, 6)


def number_of(picture: np.ndarray[Any, Any]) -> int:
    """Which picture of `ten_greys` it is."""
    return round(float(picture.mean()) / 20)


def see(picture: np.ndarray[Any, Any]) -> list[tuple[Any, ...]]:
    """What `eye` sees."""
    number = number_of(picture)
    return [CAT] * (number % 2 == 0) + [DOG, FAINT_DOG] * (number % 3 == 0)


def sort(picture: np.ndarray[Any, Any]) -> dict[str, float]:
    """What `kind` makes of a picture: the dark ones are cats, the others fish."""
    first = number_of(picture) < 5
    return {"cat": 0.6 if first else 0.1, "dog": 0.3, "fish": 0.1 if first else 0.6}


class Asking:
    """A session with `sq`, `big`, `up` over values, and `eye`, `kind` over pictures.

    The cache is off unless `cache=True` is given.
    """

    def __init__(self, path: str | Path = ":memory:", **config: Any) -> None:
        self.session = mlsql.connect(str(path), config={"cache": False, **config})
        self._given: dict[str, list[list[Any]]] = {}
        self.add("sq", lambda x: x * x)
        self.add("big", lambda x: x > 2, output="BOOLEAN")
        self.add("up", str.upper, input="VARCHAR", output="VARCHAR")
        self.add("eye", see, task="detect", labels=["cat", "dog", "bird"])
        self.add("kind", sort, task="classify", labels=["cat", "dog", "fish"])

    def add(self, name: str, function: Callable[[Any], Any], **options: Any) -> None:
        """Register a model that applies `function` to each input."""
        given = self._given[name] = []

        def batch(values: list[Any]) -> list[Any]:
            assert values, "a model was called with an empty batch"
            given.append(values)
            return [function(value) for value in values]

        if "task" not in options:
            options = {"task": "predict", "input": "BIGINT", "output": "BIGINT", **options}
        self.session.register_model(batch, name=name, **options)

    def run(self, sql: str, parameters: Parameters = None) -> mlsql.Result:
        """The result of a statement; what models were asked before is forgotten."""
        for given in self._given.values():
            given.clear()
        return self.session.execute(sql, parameters)

    def rows(self, sql: str, parameters: Parameters = None) -> Rows:
        """The rows of a statement; what models were asked before is forgotten."""
        return self.run(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Parameters = None) -> Any:
        """The only value of a statement's only row."""
        ((value,),) = self.rows(sql, parameters)
        return value

    def asked(self, name: str) -> list[Any]:
        """The inputs that a model was given by the last statement, in order."""
        return [value for batch in self._given[name] for value in batch]

    def batches(self, name: str) -> list[int]:
        """The sizes of the batches that a model was given by the last statement."""
        return [len(batch) for batch in self._given[name]]

    @property
    def calls(self) -> int:
        """How many inputs all models were given by the last statement."""
        return sum(len(self.asked(name)) for name in self._given)

    def close(self) -> None:
        self.session.close()

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def reference() -> duckdb.DuckDBPyConnection:
    """Plain DuckDB with macros in the place of `sq`, `big` and `up`: the answer to expect."""
    plain = duckdb.connect()
    plain.execute("CREATE MACRO sq(a) AS CAST(a AS BIGINT) * CAST(a AS BIGINT)")
    plain.execute("CREATE MACRO big(a) AS CAST(a AS BIGINT) > 2")
    plain.execute("CREATE MACRO up(a) AS upper(CAST(a AS VARCHAR))")
    return plain


def make_video(folder: Path, name: str = "v.mp4") -> Path:
    """A video of `ten_greys`, ten pictures a second."""
    return ten_greys(folder / name)


def make_pictures(folder: Path, count: int = 4) -> Path:
    """A folder of pictures 0.png, 1.png …, the same as those of the video."""
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}.png").write_bytes(encode_picture(grey(20 * number), "PNG"))
    return folder
