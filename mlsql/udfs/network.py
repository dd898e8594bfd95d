"""What a model says of its network, so that another runtime can take the network's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    Run = Callable[[Sequence[NDArray[np.uint8]]], Iterator[NDArray[np.float32]]]


@dataclass(frozen=True)
class Pixels:
    """How RGB uint8 pictures (side, side, 3) become the network's input: x * scale + shift."""

    side: int
    scale: float
    shift: float


class Networked(Protocol):
    """A model that is one network between its `prepare` and what it makes of raw answers.

    `network` is a torch module from (pictures, 3, side, side) to one tensor whose first axis are
    the pictures. `run` is None, or a faster way to the same raw answers: given pictures that
    `prepare` made, it gives the answer of each, in order, valid until the next one is asked for.
    `ranges` are, for 8 bits, the largest magnitudes of the convolutions' inputs in order, negative
    where an input has a sign; None where nobody has measured them.
    """

    pixels: Pixels
    run: Run | None

    @property
    def network(self) -> Any:
        """The torch module, built at its first use."""

    def pixels_of(self, prepared: Any) -> NDArray[np.uint8]:
        """The picture in what `prepare` made: the very array that `infer` hands to `run`."""

    @property
    def ranges(self) -> Sequence[float] | None:
        """What 8-bit convolutions need to know."""


def is_networked(model: object) -> bool:
    """Whether a model is a Networked; asked so that it need not build its network to answer."""
    return isinstance(getattr(model, "pixels", None), Pixels)


def raw_answer(
    network: nn.Module, pixels: Sequence[NDArray[np.uint8]], how: Pixels, device: str
) -> Tensor:
    """The network's answer to those pictures by torch, float32, on the device."""
    import numpy as np
    import torch

    batch = torch.from_numpy(np.stack(pixels)).to(device)
    # Permuting the interleaved batch gives torch's channels_last layout without a copy.
    x = batch.permute(0, 3, 1, 2).float().mul_(how.scale).add_(how.shift)
    answer: Tensor = network(x).float()
    return answer
