"""A loaded model, asked in batches of a size that memory and patience allow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from mlsql.errors import ModelOutputError, OperationalError
from mlsql.exec.faults import Fault, fault
from mlsql.exec.share import Counters
from mlsql.exec.twin_pictures import TwinPictures
from mlsql.udfs.spec import Model, ModelSpec

if TYPE_CHECKING:
    from mlsql.exec.tuning import Tuning
    from mlsql.udfs.network import Networked

PATIENCE = 0.5
"""Seconds a model call should take at most, so that a stop is quick; no call can be cut short."""


class LoadedModel:
    """Gives every input an answer or a Fault: a bad input costs itself, not its batch."""

    def __init__(self, spec: ModelSpec, model: Model) -> None:
        self.spec = spec
        self.batch_size = spec.batch_size
        self.model = model
        self._room = sys.maxsize  # inputs that memory was found to allow
        self._calm = sys.maxsize  # inputs that PATIENCE was found to allow
        self._slow: tuple[int, float] | None = None  # the last call that took longer, and how long
        self._batches = 0
        self._seconds = 0.0
        self.seconds_in_all = 0.0
        self.tuning: Tuning | None = None
        self._coming = _Coming(tuple, None)
        self._twins = TwinPictures() if spec.deterministic and spec.takes_media else None

    def prepare(self, value: Any) -> Any:
        """The prepared input, or the Fault that the model raised over it."""
        try:
            return self.model.prepare(value)
        except OperationalError:
            raise
        except Exception as error:
            return fault(error, self.spec.name)

    @property
    def size(self) -> int:
        """How many inputs the next call takes."""
        return max(1, min(self.batch_size, self._room, self._calm))

    def answers(
        self, inputs: Sequence[Any], check: Callable[[], None] = lambda: None,
        coming: Callable[[], Sequence[Any]] = tuple,
    ) -> tuple[list[Any], Counters]:
        """One answer or Fault an input, in order. `check` is asked before every call of the model.

        `coming` gives the inputs that will be asked next, as far as they are at hand: a network
        may begin with them.

        A prepared input that is a Fault already stays one. Pictures that are equal to the one
        before are not asked again. A model that raises on a batch is asked in halves; one that
        answers too few or too many, singly.
        """
        self._batches, self._seconds = 0, 0.0
        given = [value for value in inputs if not isinstance(value, Fault)]
        twins = self._twins
        asked = given if twins is None else twins.new(given)
        self._coming = _Coming(coming, twins)
        found = self._in_calls(asked, check)
        rest = iter(found if twins is None else twins.spread(found))
        merged = [value if isinstance(value, Fault) else next(rest) for value in inputs]
        spent = Counters(calls=len(asked), batches=self._batches, seconds_infer=self._seconds)
        return merged, spent

    def _in_calls(self, inputs: Sequence[Any], check: Callable[[], None]) -> list[Any]:
        found: list[Any] = []
        while len(found) < len(inputs):
            end = len(found) + self.size
            self._expect(inputs[end:])
            found += self._ask(inputs[len(found) : end], check)
        return found

    def _expect(self, rest: Sequence[Any]) -> None:
        """Tell the network what it will be asked after this call."""
        run, coming = self._ahead, self._coming
        if run is not None:
            pixels_of = cast("Networked", self.model).pixels_of
            run.expect(lambda: list(map(pixels_of, [*rest, *coming.inputs()])))

    @property
    def _ahead(self) -> Any:
        """What runs the model's network, if it can begin before it is asked."""
        run = getattr(self.model, "run", None)
        return run if hasattr(run, "expect") else None

    def forget(self) -> None:
        """Nothing is coming any more: the network lets go of what it has begun."""
        self._coming = _Coming(tuple, None)
        if self._ahead is not None:
            self._ahead.expect(tuple)
            self._ahead.forget()

    def _ask(self, inputs: Sequence[Any], check: Callable[[], None]) -> list[Any]:
        check()
        try:
            answers = self._call(inputs)
        except OperationalError:
            raise
        except Exception as error:
            if len(inputs) == 1:
                return [fault(error, self.spec.name)]
            most = (len(inputs) + 1) // 2
            if _out_of_memory(error):
                self._room = most
        else:
            if len(answers) == len(inputs):
                return [self._checked(answer) for answer in answers]
            if len(inputs) == 1:
                return [self._wrong(f"gave {len(answers)} answers to one input")]
            return [answer for value in inputs for answer in self._ask([value], check)]
        # Here the exception is gone, and with it the tensors that its frames held.
        _free()
        halves = self._in_calls if self._room <= most else self._ask
        return halves(inputs[:most], check) + halves(inputs[most:], check)

    def _call(self, inputs: Sequence[Any]) -> list[Any]:
        started = time.perf_counter()
        try:
            answers = self.model.infer(inputs)
        finally:
            seconds = time.perf_counter() - started
            self._batches += 1
            self._seconds += seconds
            self.seconds_in_all += seconds
            self._learn(len(inputs), seconds)
        if isinstance(answers, (str, bytes, dict)) or not hasattr(answers, "__iter__"):
            kind = type(answers).__name__
            raise ModelOutputError(
                f"model {self.spec.name!r} gave a {kind} instead of one answer an input",
                self.spec.name,
            )
        return list(answers)

    def _learn(self, count: int, seconds: float) -> None:
        """Halve the calls of a slow model, unless halves take as long: then the time is not ours
        to save (another process has the processor), and small calls would only make it worse."""
        if seconds <= PATIENCE:
            if count == self._calm and seconds < PATIENCE / 4:
                self._calm *= 2
        elif self._slow and count * 2 <= self._slow[0] and seconds > 0.75 * self._slow[1]:
            self._calm = sys.maxsize
        elif self._slow is None or count < self._slow[0]:
            self._slow = (count, seconds)
            self._calm = max(1, count // 2)

    def _checked(self, answer: Any) -> Any:
        return self._wrong("gave no answer (None) to an input") if answer is None else answer

    def _wrong(self, what: str) -> Fault:
        name = self.spec.name
        return fault(ModelOutputError(f"model {name!r} {what}", name), name)


class _Coming:
    """The inputs after those that a model is being asked about; what equals the one before is not
    among them."""

    def __init__(
        self, coming: Callable[[], Sequence[Any]], twins: TwinPictures | None
    ) -> None:
        self._ask, self._twins = coming, twins
        self._given = 0
        self._found: list[Any] = []

    def inputs(self) -> list[Any]:
        """Those at hand, in order; later they may be more."""
        given = [value for value in self._ask() if not isinstance(value, Fault)]
        if len(given) != self._given:
            self._given = len(given)
            self._found = given if self._twins is None else self._twins.following(given)
        return self._found


def _out_of_memory(error: Exception) -> bool:
    """Python's, torch's, and what torch's CPU allocator and onnxruntime say in a RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    words = ("out of memory", "not enough memory", "can't allocate memory", "failed to allocate")
    return isinstance(error, RuntimeError) and any(word in text for word in words)


def _free() -> None:
    """Give the device's cached memory back, where torch is in use on one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
