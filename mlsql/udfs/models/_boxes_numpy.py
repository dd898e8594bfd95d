"""Non-maximum suppression of one picture's raw answer, as `_boxes.suppressed` does, without torch.

On the processor OpenCV is faster at it, and a runtime other than torch need not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

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

    likely = head > _logit(floor)
    likely[:, :BOX] = False
    anchor, column = np.divmod(np.flatnonzero(likely), head.shape[1])
    label, score = column - BOX, 1 / (1 + np.exp(-head[anchor, column]))
    box = _decoded(head[anchor, :BOX], anchors[anchor])
    whole = np.flatnonzero((box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1]))
    order = whole[np.argsort(-score[whole], kind="stable")][:_MOST_CANDIDATES]
    label, score, box = label[order], score[order], box[order]
    best = _standing(label, score, box)[:_MOST_IN_ALL]
    return np.column_stack([label[best], score[best], box[best]]).astype(np.float64)


def _decoded(code: Floats, anchor: Floats) -> Floats:
    """Boxes y1, x1, y2, x2 clipped to the picture, from Faster R-CNN's code at 10, 10, 5, 5."""
    import numpy as np

    centre = code[:, :2] / 10 * anchor[:, 2:] + anchor[:, :2]
    half = np.exp(code[:, 2:] / 5) * anchor[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1).clip(0, 1)


def _standing(
    label: NDArray[np.intp], score: NDArray[Any], box: Floats
) -> NDArray[np.intp]:
    """The boxes that greedy suppression within each class leaves; they are given best first."""
    import cv2
    import numpy as np

    if not len(label):
        return label
    corner, size = box[:, 1::-1], box[:, :1:-1] - box[:, 1::-1]  # x, y and width, height
    places: Any = np.concatenate([corner, size], axis=1).astype(np.float64)
    numbers: Any = cv2.dnn.NMSBoxesBatched(
        places, cast(Any, score), cast(Any, label), 0.0, _IOU_LIMIT)
    standing: NDArray[np.intp] = np.sort(numbers)
    if len(standing) > _MOST_A_CLASS:
        for each in np.flatnonzero(np.bincount(label[standing]) > _MOST_A_CLASS):
            surplus = np.flatnonzero(label[standing] == each)[_MOST_A_CLASS:]
            standing = np.delete(standing, surplus)
    return standing
