"""SSD's boxes: the default ones, the code that moves them, and non-maximum suppression.

The constants are those of the frozen graph ssd_mobilenet_v2_coco_2018_03_29.
"""

from __future__ import annotations

from math import inf, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

_IOU_LIMIT = 0.6  # the graph's non_max_suppression/iou_threshold
_MOST_A_CLASS = _MOST_IN_ALL = 100
_MOST_CANDIDATES = 1000  # bounds the pairs compared; real pictures have a few hundred
GRIDS = (19, 10, 5, 3, 2, 1)
_SCALES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
_RATIOS = (1.0, 2.0, 0.5, 3.0, 0.3333)
BOX = 4


def anchors() -> NDArray[np.float32]:
    """The default boxes (1917, 4) as centre y, centre x, height, width, in shares of the picture.

    Liu et al. 2016 with the graph's constants: the finest map has three boxes a place, the others
    the five ratios and one more square between this scale and the next.
    """
    import numpy as np

    boxes = []
    for level, grid in enumerate(GRIDS):
        shapes = [(_SCALES[level], ratio) for ratio in _RATIOS]
        shapes.append(((_SCALES[level] * _SCALES[level + 1]) ** 0.5, 1.0))
        if level == 0:
            shapes = [(0.1, 1.0), (0.2, 2.0), (0.2, 0.5)]
        centres = (np.arange(grid) + 0.5) / grid
        y, x, shape = np.meshgrid(centres, centres, np.arange(len(shapes)), indexing="ij")
        scale, ratio = np.array(shapes)[shape].transpose(3, 0, 1, 2)
        boxes.append(np.stack([y, x, scale / ratio**0.5, scale * ratio**0.5], -1).reshape(-1, 4))
    return np.concatenate(boxes).astype(np.float32)


def suppressed(head: Tensor, anchors: Tensor, floor: float) -> list[NDArray[np.float64]]:
    """What is left of the raw answer after per-class non-maximum suppression.

    One array a picture, best first: label index, score, y1, x1, y2, x2 in shares of the picture.
    """
    import torch

    pictures = len(head)
    logits = head[..., BOX:]
    picture, anchor, label = (logits > _logit(floor)).nonzero(as_tuple=True)
    score = logits[picture, anchor, label].sigmoid()
    box = _decoded(head[picture, anchor, :BOX], anchors[anchor])
    whole = (box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1])
    rows = torch.column_stack([label.to(score.dtype), score, box])[whole]
    rows, real = _padded(rows, picture[whole], pictures)
    kept = real & _survivors(rows)
    kept &= kept.cumsum(1) <= _MOST_IN_ALL
    found, mask = rows.double().cpu().numpy(), kept.cpu().numpy()
    return [found[i][mask[i]] for i in range(pictures)]


def _logit(score: float) -> float:
    return log(score / (1 - score)) if 0 < score < 1 else (-inf if score <= 0 else inf)


def _decoded(code: Tensor, anchor: Tensor) -> Tensor:
    """Boxes y1, x1, y2, x2 clipped to the picture, from Faster R-CNN's code at 10, 10, 5, 5."""
    import torch

    centre = code[:, :2] / 10 * anchor[:, 2:] + anchor[:, :2]
    half = (code[:, 2:] / 5).exp() * anchor[:, 2:] / 2
    return torch.cat([centre - half, centre + half], dim=1).clamp_(0.0, 1.0)


def _padded(rows: Tensor, picture: Tensor, pictures: int) -> tuple[Tensor, Tensor]:
    """Candidates as (pictures, most, 6), best first, and which of them are real."""
    import torch

    order = rows[:, 1].argsort(descending=True, stable=True)
    order = order[picture[order].argsort(stable=True)]
    rows, picture = rows[order], picture[order]
    counts = torch.bincount(picture, minlength=pictures)
    place = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[picture]
    most = min(int(counts.max()), _MOST_CANDIDATES)
    fits = place < most
    table = rows.new_zeros(pictures, most, rows.shape[1])
    table[picture[fits], place[fits]] = rows[fits]
    real = torch.arange(most, device=rows.device)[None] < counts[:, None]
    return table, real


def _survivors(rows: Tensor) -> Tensor:
    """Greedy suppression, all pictures at once: (pictures, most), given best first.

    A row falls if a better one of its class that itself stands overlaps it by more than the limit.
    Started from all standing, each pass settles at least one more row, so the passes end in the
    greedy answer, mostly after three.
    """
    import torch

    label, box = rows[..., 0], rows[..., 2:]
    low = torch.maximum(box[:, :, None, :2], box[:, None, :, :2])
    high = torch.minimum(box[:, :, None, 2:], box[:, None, :, 2:])
    shared = (high - low).clamp_(min=0).prod(-1)
    area = (box[..., 2:] - box[..., :2]).prod(-1)
    union = area[:, :, None] + area[:, None, :] - shared
    same = label[:, :, None] == label[:, None, :]
    beats = (same & (shared > _IOU_LIMIT * union)).triu(diagonal=1).float()
    standing = torch.ones_like(label)
    while True:
        left = (torch.einsum("pij,pi->pj", beats, standing) == 0).float()
        if torch.equal(left, standing):
            break
        standing = left
    rank = (same.triu().float() * standing[:, :, None]).sum(1)
    return (standing > 0) & (rank <= _MOST_A_CLASS)
