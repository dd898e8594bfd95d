"""EfficientNet-lite0 without its last layer: 1,280 numbers that are near for pictures alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlsql.udfs.models import efficientnet_lite0
from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDTH = 1280

SPEC = replace(
    efficientnet_lite0.SPEC,
    name="efficientnet_lite0_features",
    task="embed",
    output_type=f"FLOAT[{WIDTH}]",
    loader="mlsql.udfs.models.efficientnet_lite0_features:load",
    labels=(),
    min_score=0.5,
    origin="Google, EfficientNet-lite0 trained on ImageNet-1k, before its last layer",
)


def load(spec: ModelSpec, device: str) -> Features:
    """The network on a torch device, its weights checked and read."""
    return Features(spec, device)


class Features:
    """The pooled features; pictures are prepared as for the classifier."""

    def __init__(self, spec: ModelSpec, device: str) -> None:
        self._classifier = efficientnet_lite0.Classifier(spec, device)
        network: Any = self._classifier.network
        self._features: Callable[[Any], Any] = network.features
        self._device = device

    def prepare(self, value: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """An RGB uint8 picture (height, width, 3) as its centre, 224 by 224."""
        return self._classifier.prepare(value)

    def infer(self, prepared: Sequence[NDArray[np.uint8]]) -> list[Any]:
        """The features of each picture, four decimals: no more are the same in every batch."""
        import numpy as np
        import torch

        from mlsql.udfs.models._layers import full_precision

        if not prepared:
            return []
        with torch.inference_mode(), full_precision():
            batch = torch.from_numpy(np.stack(prepared)).to(self._device)
            x = batch.permute(0, 3, 1, 2).float().sub_(127.0).mul_(1 / 128.0)
            found = self._features(x).float().cpu().numpy()
        return list(np.round(found, 4))
