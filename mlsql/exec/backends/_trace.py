"""What a network does to a picture, as a list of operations that another runtime can take over.

Imports torch, so it is imported only where a network is to be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Value:
    """What an operation made, or the network's input, which is number 0."""

    number: int


@dataclass(frozen=True)
class Operation:
    """One call of torch; tensors among its arguments are Values, or weights as they are."""

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Value
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """A network's operations in order; the last one's result is its answer."""

    operations: tuple[Operation, ...]


def traced(network: nn.Module, example: Tensor) -> Trace:
    """The operations that the network applies to an input like `example`.

    What depends on the input's values, as a branch may, is frozen as it was for the example.
    """
    recorder = _Recorder(example)
    with torch.inference_mode(), recorder:
        answer = network(example)
    if not recorder.operations or recorder.values.get(id(answer)) is None:
        raise TypeError("the network's answer is not one tensor that hangs on its input")
    if recorder.values[id(answer)] != recorder.operations[-1].result:
        raise TypeError("the network does something after its answer is there")
    return Trace(tuple(recorder.operations))


class _Recorder(TorchFunctionMode):
    """Writes down each call of torch that a tensor of the network's goes through."""

    def __init__(self, example: Tensor) -> None:
        super().__init__()
        self.values = {id(example): Value(0)}
        self.operations: list[Operation] = []
        self._alive: list[Tensor] = [example]  # an id is one tensor's only while that lives

    def __torch_function__(
        self, function: Callable[..., Any], _: Any, args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        arguments = tuple(self._named(args))
        named = dict(zip(options, self._named(options.values())))
        answer = function(*args, **options)
        if isinstance(answer, Tensor) and _holds_value([*arguments, *named.values()]):
            name = getattr(function, "__name__", str(function))
            self._record(name, arguments, named, answer, args)
        return answer

    def _record(
        self, name: str, arguments: tuple[Any, ...], options: Mapping[str, Any], answer: Tensor,
        given: tuple[Any, ...],
    ) -> None:
        if name in ("to", "contiguous", "detach") and any(answer is value for value in given):
            return  # it had nothing to do
        made = Value(len(self.operations) + 1)
        self.operations.append(
            Operation(name, arguments, options, made, tuple(answer.shape)))
        self.values[id(answer)] = made
        self._alive.append(answer)

    def _named(self, arguments: Iterable[Any]) -> Iterator[Any]:
        for value in arguments:
            if isinstance(value, (list, tuple)):
                yield type(value)(self._named(value)) if type(value) in (list, tuple) else value
            elif isinstance(value, Tensor):
                yield self.values.get(id(value), value)
            else:
                yield value


def _holds_value(arguments: Iterable[Any]) -> bool:
    return any(isinstance(a, Value) or (isinstance(a, (list, tuple)) and _holds_value(a))
               for a in arguments)
