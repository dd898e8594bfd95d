"""Which runtime a model's network has on this machine: known from before, measured, or assumed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlsql.errors import NotSupportedError
from mlsql.exec.backends.openvino_network import FORM
from mlsql.exec.machine import machine, processors
from mlsql.exec.tuning_notes import read_note, write_note
from mlsql.udfs.network import Networked, is_networked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlsql.udfs.spec import ModelSpec

WORTH_SECONDS = 300.0
"""Seconds in a model after which it is worth the few that measuring takes: under 3 % of them."""

_ROUNDS = 5
_MOST_SECONDS = 8.0  # a machine that is busy with other work gets fewer rounds
_ROUND_SECONDS = 0.12
_GAIN = 1.05  # what the assumed runtime must be beaten by: less is noise


@dataclass(frozen=True)
class Runtime:
    """A way to run a network: `streams` requests side by side of `threads` each, or torch.

    `batch` is the number of pictures that a model call is best given.
    """

    name: str  # 'openvino' | 'torch'
    streams: int = 1
    threads: int = 1
    batch: int = 16

    def __str__(self) -> str:
        if self.name == "torch":
            return f"torch, batch {self.batch}"
        return f"{self.name}, {self.streams} x {self.threads} threads, batch {self.batch}"


@dataclass(frozen=True)
class Choice:
    """The runtime taken and the reason, as EXPLAIN ANALYZE says it."""

    runtime: Runtime
    why: str
    measured: bool = False

    def __str__(self) -> str:
        return f"{self.runtime} ({self.why})"


def precision_of(spec: ModelSpec) -> str:
    """What the network computes in: 'fp32' unless the spec is a variant."""
    return str(dict(spec.parameters).get("precision", "fp32"))


def candidates(device: str, precision: str, batch: int) -> list[Runtime]:
    """The runtimes for such a network here, the one that is assumed to be best first."""
    if device != "cpu":
        if precision == "int8":
            raise NotSupportedError(
                f"precision = 'int8' is for the processor; on {device} take bf16 or fp16")
        return [Runtime("torch", batch=size) for size in (4 * batch, batch, 8 * batch, 16 * batch)]
    # Every stream of one thread: nothing waits for a thread that the decoder keeps from running.
    cores = processors()
    own: list[Runtime] = []
    if precision in ("fp32", "int8") or (precision == "bf16" and _computes("BF16")):
        splits = dict.fromkeys((cores, max(1, cores // 4), 1))
        own = [Runtime("openvino", n, cores // n, max(batch, 4 * n)) for n in splits]
    # A variant has one runtime, as its answers differ by more than roundings between them.
    return own if own and precision != "fp32" else [*own, Runtime("torch", 1, cores, batch)]


def _computes(precision: str) -> bool:
    """Whether OpenVINO is here and has the processor's own instructions for that precision."""
    try:
        import openvino
    except ImportError:
        return False
    return precision in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class Tuning:
    """The runtime of one loaded model, and what is needed to find a better one.

    Notes of what was measured, and networks in the form of other runtimes, lie in `folder` by the
    hash of what they hang on; None keeps nothing.
    """

    def __init__(
        self, spec: ModelSpec, model: Networked, device: str, folder: Path | None
    ) -> None:
        self._spec, self._model, self._device = spec, model, device
        self._folder = folder
        self._precision = precision_of(spec)
        self._candidates = candidates(device, self._precision, spec.batch_size)
        self._key = (spec.fingerprint, machine(device), tuple(map(str, self._candidates)))
        self.choice = self._start()

    @property
    def batch(self) -> int:
        """Pictures a call."""
        return self.choice.runtime.batch

    @property
    def open(self) -> bool:
        """Whether measuring may still find something better."""
        return not self.choice.measured and len(self._candidates) > 1

    def measure(self, check: Callable[[], None]) -> None:
        """Time the candidates in turns and take the fastest; `check` may raise between two calls.

        Candidates take turns because other work on the machine comes and goes.
        """
        picture = _noise(self._model.pixels.side)
        runs = {runtime: run for runtime in self._candidates if (run := self._made(runtime))}
        rates: dict[Runtime, list[float]] = {runtime: [] for runtime in runs}
        started = time.perf_counter()
        for turn in range(_ROUNDS + 1):
            if turn > 1 and time.perf_counter() - started > _MOST_SECONDS:
                break
            for runtime, run in runs.items():
                rate = _rate(run, [picture] * runtime.batch, check)
                if turn:  # the first is for warming up
                    rates[runtime].append(rate)
        self._take(runs, {runtime: statistics.median(found) for runtime, found in rates.items()})

    def _take(self, runs: dict[Runtime, Any], rates: dict[Runtime, float]) -> None:
        first, best = next(iter(rates)), max(rates, key=lambda runtime: rates[runtime])
        if rates[best] < _GAIN * rates[first]:
            best = first
        others = ", ".join(f"{r} {rate:.0f}" for r, rate in rates.items() if r != best)
        why = f"measured: {rates[best]:.0f} pictures/s (else {others})"
        self.choice = Choice(best, why, measured=True)
        self._model.run = runs[best]
        number = self._candidates.index(best)
        write_note(self._folder, self._key, {"candidate": number, "why": why})

    def _start(self) -> Choice:
        """The runtime of an earlier measurement, else the first that can be had."""
        note = read_note(self._folder, self._key)
        known = note.get("candidate") if note else None
        if isinstance(known, int) and 0 <= known < len(self._candidates):
            run = self._made(self._candidates[known])
            if run is not None:
                self._model.run = run
                return Choice(self._candidates[known], str((note or {}).get("why")), measured=True)
        for runtime in list(self._candidates):
            run = self._made(runtime)
            if run is not None:
                self._model.run = run
                return Choice(runtime, "assumed: not measured here yet")
            self._candidates.remove(runtime)
        advice = ": pip install openvino" if self._precision == "int8" else ""
        raise NotSupportedError(
            f"{self._spec.name} has no runtime here for precision {self._precision!r}{advice}")

    def _made(self, runtime: Runtime) -> Any:
        """What runs the network that way; None where it cannot be had."""
        try:
            if runtime.name == "torch":
                return self._torch(runtime)
            return self._openvino(runtime)
        except (TypeError, ImportError, RuntimeError):
            return None  # an operation that the runtime lacks, a library that does not load

    def _torch(self, runtime: Runtime) -> Any:
        from mlsql.exec.backends.torch_network import TorchNetwork

        return TorchNetwork(self._model, self._device, runtime.batch, self._precision)

    def _openvino(self, runtime: Runtime) -> Any:
        from mlsql.exec.backends.openvino_network import OpenVINONetwork, network

        eight_bit = self._precision == "int8"
        ranges = self._model.ranges if eight_bit else None
        name = self._network_name(self._precision)
        file = self._folder / "networks" / f"{name}.xml" if self._folder and name else None
        compute = "bf16" if self._precision == "bf16" else "f32"
        made = network(self._model, file, ranges, name, exact=self._precision == "fp32")
        return OpenVINONetwork(made, runtime.streams, runtime.threads, compute)

    def _network_name(self, kind: str) -> str:
        """What the network is known by; empty where nothing says which weights it has."""
        spec = self._spec
        return f"{spec.sha256[:24]}-{spec.version}-{kind}-{FORM}" if spec.sha256 else ""


def tuned(spec: ModelSpec, model: object, device: str, folder: Path | None) -> Tuning | None:
    """The tuning of a model that is one network; None for any other."""
    if not is_networked(model):
        return None
    return Tuning(spec, cast("Networked", model), device, folder)


def _noise(side: int) -> NDArray[np.uint8]:
    import numpy as np

    return np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)


def _rate(run: Any, pictures: Sequence[Any], check: Callable[[], None]) -> float:
    """Pictures a second."""
    started, done = time.perf_counter(), 0
    while (seconds := time.perf_counter() - started) < _ROUND_SECONDS or not done:
        check()
        done += sum(1 for _ in run(pictures))
    return done / seconds
