"""The constants of a frozen TensorFlow graph, read straight off the protocol-buffer wire.

Field numbers are those of tensorflow/core/framework: graph.proto, node_def.proto,
attr_value.proto, tensor.proto, tensor_shape.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlsql.errors import OperationalError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GRAPH_NODE = 1
_NODE_NAME, _NODE_OP, _NODE_ATTR = 1, 2, 5
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_ATTR_TENSOR = 8
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT = 1, 2, 4
_SHAPE_DIM, _DIM_SIZE = 2, 1
_DT_FLOAT = 1

Field = tuple[int, "int | memoryview"]


class FrozenGraph:
    """The float32 constants of a graph file, by node name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, memoryview] = {}
        for number, node in _fields(memoryview(path.read_bytes())):
            if number == _GRAPH_NODE:
                parts = dict(f for f in _fields(_bytes(node)) if f[0] in (_NODE_NAME, _NODE_OP))
                if bytes(_bytes(parts[_NODE_OP])) == b"Const":
                    self._nodes[bytes(_bytes(parts[_NODE_NAME])).decode()] = _bytes(node)

    def constant(self, name: str) -> NDArray[np.float32]:
        """The value of a Const node; one that is missing or not float32 is an error."""
        if name not in self._nodes:
            raise OperationalError(f"{self._path} has no constant {name!r}")
        for number, entry in _fields(self._nodes[name]):
            if number == _NODE_ATTR:
                parts = dict(_fields(_bytes(entry)))
                if bytes(_bytes(parts[_ENTRY_KEY])) == b"value":
                    value = dict(_fields(_bytes(parts[_ENTRY_VALUE])))
                    return self._tensor(name, _bytes(value[_ATTR_TENSOR]))
        raise OperationalError(f"the constant {name!r} of {self._path} has no value")

    def _tensor(self, name: str, message: memoryview) -> NDArray[np.float32]:
        import numpy as np

        parts = dict(_fields(message))
        if parts.get(_TENSOR_DTYPE) != _DT_FLOAT or _TENSOR_CONTENT not in parts:
            raise OperationalError(f"the constant {name!r} of {self._path} is not packed float32")
        dims = [dict(_fields(_bytes(dim))).get(_DIM_SIZE, 0)
                for number, dim in _fields(_bytes(parts[_TENSOR_SHAPE])) if number == _SHAPE_DIM]
        return np.frombuffer(_bytes(parts[_TENSOR_CONTENT]), "<f4").reshape([int(d) for d in dims])


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise OperationalError("not a frozen graph: a number where a message was expected")
    return value


def _fields(message: memoryview) -> Iterator[Field]:
    """The fields of one message: varints as int, everything else as its bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = _varint(message, at)
        yield key >> 3, message[at:at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
