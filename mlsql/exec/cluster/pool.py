"""How many workers there may be, where, and what each is given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pool:
    """The bounds of an executor that has several workers; it starts and ends them in between.

    `most` 0 is as many as the machines have accelerators, or room without any. `address` is a Ray
    cluster's ('' is one that is running already, else one of this machine's own). `gpus` is what
    each worker takes, in parts if need be; negative is one where there are any.
    """

    least: int = 1
    most: int = 0
    address: str = ""
    gpus: float = -1.0
