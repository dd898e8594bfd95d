"""Non-maximum suppression of one picture's raw answer, as `_boxes.suppressed` does, without torch.

On the processor this is faster for one picture, and a runtime other than torch need not load torch
for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsql.udfs.models._boxes import (
    _IOU_LIMIT,
    _MOST_A_CLASS,
    _MOST_CANDIDATES,
    _MOST_IN_ALL,
    BOX,
    _logit,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def kept(head: Floats, anchors: Floats, floor: float) -> NDArray[np.float64]:
    """Label index, score, y1, x1, y2, x2 in shares of the picture, best first, of (anchors, 84)."""
    import numpy as np

    anchor, label = np.nonzero(head[:, BOX:] > _logit(floor))
    score = 1 / (1 + np.exp(-head[anchor, BOX + label]))
    box = _decoded(head[anchor, :BOX], anchors[anchor])
    whole = np.flatnonzero((box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1]))
    order = whole[np.argsort(-score[whole], kind="stable")][:_MOST_CANDIDATES]
    label, score, box = label[order], score[order], box[order]
    best = np.flatnonzero(_standing(label, box))[:_MOST_IN_ALL]
    return np.column_stack([label[best], score[best], box[best]]).astype(np.float64)


def _decoded(code: Floats, anchor: Floats) -> Floats:
    """Boxes y1, x1, y2, x2 clipped to the picture, from Faster R-CNN's code at 10, 10, 5, 5."""
    import numpy as np

    centre = code[:, :2] / 10 * anchor[:, 2:] + anchor[:, :2]
    half = np.exp(code[:, 2:] / 5) * anchor[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1).clip(0, 1)


def _standing(label: NDArray[np.intp], box: Floats) -> NDArray[np.bool_]:
    """Which boxes greedy suppression within each class leaves; they are given best first."""
    import numpy as np

    y1, x1, y2, x2 = box.T
    area = (y2 - y1) * (x2 - x1)
    standing = np.ones(len(label), dtype=bool)
    for each in np.flatnonzero(np.bincount(label) > 1):
        at = np.flatnonzero(label == each)
        beats = _overlaps(y1[at], x1[at], y2[at], x2[at], area[at])
        for i in range(len(at)):
            if standing[at[i]]:
                standing[at[i + 1:]] &= ~beats[i, i + 1:]
        standing[at[standing[at].cumsum() > _MOST_A_CLASS]] = False
    return standing


def _overlaps(y1: Floats, x1: Floats, y2: Floats, x2: Floats, area: Floats) -> NDArray[np.bool_]:
    """Which pairs of boxes share more of their union than the limit."""
    import numpy as np

    high = np.minimum(y2[:, None], y2) - np.maximum(y1[:, None], y1)
    wide = np.minimum(x2[:, None], x2) - np.maximum(x1[:, None], x1)
    shared = high.clip(min=0) * wide.clip(min=0)
    found: NDArray[np.bool_] = shared > _IOU_LIMIT * (area[:, None] + area - shared)
    return found
