"""A network run by torch on any device: batched, in the precision asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from mlsql.udfs.network import Networked

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class TorchNetwork:
    """Gives raw answers of a model's network, whose weights it may change the precision of.

    On a GPU pictures travel from pinned memory while the batch before them is being computed.
    """

    def __init__(self, model: Networked, device: str, batch: int, precision: str = "fp32") -> None:
        import torch

        self._device = torch.device(device)
        self._network: Any = model.network.to(self._device, getattr(torch, DTYPES[precision]))
        self._network = self._network.to(memory_format=torch.channels_last)
        self._pixels = model.pixels
        self._batch = batch

    def __call__(
        self, pictures: Sequence[NDArray[np.uint8]]
    ) -> Iterator[NDArray[np.float32]]:
        """The answer of each picture, in order."""
        for answers in self.batches(pictures):
            yield from answers.cpu().numpy()

    def batches(self, pictures: Sequence[NDArray[np.uint8]]) -> Iterator[Tensor]:
        """The answers batch by batch, left on the device."""
        import torch

        from mlsql.udfs.models._layers import full_precision

        starts = range(0, len(pictures), self._batch)
        pieces = [pictures[start:start + self._batch] for start in starts]
        with torch.inference_mode(), full_precision():
            ahead = self._moved(pieces[0]) if pieces else None
            for number in range(len(pieces)):
                assert ahead is not None
                answer = self._network(self._scaled(ahead)).float()
                if number + 1 < len(pieces):  # the copy runs beside the network
                    ahead = self._moved(pieces[number + 1])
                yield answer

    def _moved(self, pictures: Sequence[NDArray[np.uint8]]) -> Tensor:
        import numpy as np
        import torch

        shape = (len(pictures), *pictures[0].shape)
        pinned = self._device.type == "cuda"
        batch = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        np.stack(pictures, out=batch.numpy())
        return batch.to(self._device, non_blocking=pinned)

    def _scaled(self, batch: Tensor) -> Tensor:
        """Normalised on the device; the permuted batch is in channels_last without a copy."""
        x = batch.permute(0, 3, 1, 2).float()
        return x.mul_(self._pixels.scale).add_(self._pixels.shift)
