"""What networks answer with, read: one array, or a detector's boxes, scores and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlsql.errors import ModelOutputError
from mlsql.udfs.framing import Frame
from mlsql.udfs.spec import ModelSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def only(said: Any, head: str | int | None, count: int) -> Array:
    """The one array of an answer, or the one that `head` names; its first axis is the batch."""
    import numpy as np

    named: dict[Any, Any] = dict(enumerate(said)) if isinstance(said, (list, tuple)) else \
        dict(said) if isinstance(said, Mapping) else {0: said}
    if head is not None:
        if head not in named:
            raise ModelOutputError(f"it has no output {head!r}: there are "
                                   + ", ".join(map(repr, named)))
        named = {head: named[head]}
    if len(named) != 1:
        raise ModelOutputError("it has several outputs: say which with head => "
                               + " or ".join(map(repr, named)))
    rows = np.asarray(next(iter(named.values())))
    if rows.ndim == 0 or len(rows) != count:
        raise ModelOutputError(f"it answered {count} inputs with an array of shape {rows.shape}")
    return rows


def probabilities(rows: Array, way: str | None) -> Array:
    """Scores as probabilities; `way` None takes them for probabilities if that is what they are."""
    import numpy as np

    rows = rows.reshape(len(rows), -1).astype(np.float64)
    if (way or found_way(rows)) == "softmax":
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    if way == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-rows)))
    return rows


def found_way(rows: Array) -> str:
    """'none' where every row is a distribution already, else 'softmax'."""
    import numpy as np

    flat = rows.reshape(len(rows), -1)
    sums = np.allclose(flat.sum(axis=1), 1.0, atol=1e-3)
    return "none" if sums and flat.min() >= 0 and flat.max() <= 1 else "softmax"


def values(rows: Array, spec: ModelSpec) -> list[Any]:
    """A vector an input, or for 'predict' a single value where there is one."""
    if spec.task == "embed":
        return list(rows.reshape(len(rows), -1))
    single = not spec.output_type.rstrip().endswith("]")
    if single and rows.size == len(rows):
        flat = rows.reshape(len(rows))
        return [bool(v) for v in flat] if spec.output_type.upper() == "BOOLEAN" else \
            [v.item() for v in flat]
    return [row.tolist() for row in rows]


def detections(
    said: Any, frames: Sequence[Frame], spec: ModelSpec, size: tuple[int, int]
) -> list[list[tuple[Any, ...]]]:
    """For each picture its (label, score, x1, y1, x2, y2), in pixels of the picture.

    Read are torchvision's list of dicts; arrays named boxes, scores, and labels or classes; three
    arrays of which only one is of whole numbers, or one of rows x1, y1, x2, y2, score, class.
    """
    relative = dict(spec.parameters).get("boxes") == "relative"
    found = []
    for frame, (boxes, scores, labels) in zip(frames, _by_picture(said, len(frames)), strict=True):
        kept = []
        for box, score, label in zip(boxes, scores, labels, strict=True):
            if score < spec.score_floor:
                continue
            if relative:
                box = [box[0] * size[0], box[1] * size[1], box[2] * size[0], box[3] * size[1]]
            kept.append((_word(spec, int(label)), float(score),
                         *frame.to_picture([float(v) for v in box])))
        found.append(kept)
    return found


def _word(spec: ModelSpec, number: int) -> str:
    if not 0 <= number < len(spec.labels):
        raise ModelOutputError(f"it saw the label number {number}, and labels has "
                               f"{len(spec.labels)} words: 0 to {len(spec.labels) - 1}")
    return spec.labels[number]


Parts = tuple[Any, Any, Any]  # boxes, scores, labels


def _by_picture(said: Any, count: int) -> list[Parts]:
    if isinstance(said, list) and len(said) == 2 and not said[0]:
        said = said[1]  # torchvision's, as TorchScript: losses first, of which there are none
    if isinstance(said, list) and said and all(isinstance(each, Mapping) for each in said):
        return [_named(each) for each in said]
    if isinstance(said, Mapping):
        return _split(_named(said), count)
    if isinstance(said, list) and len(said) == 3:
        return _split(_told_apart(said), count)
    if hasattr(said, "ndim") and said.ndim == 3 and said.shape[-1] == 6:
        return [(rows[:, :4], rows[:, 4], rows[:, 5]) for rows in said]
    raise ModelOutputError("its outputs are no detections: boxes, scores and labels by name, or "
                           "one array of x1, y1, x2, y2, score, class")


def _named(said: Mapping[str, Any]) -> Parts:
    parts = []
    for words in (("box",), ("score", "conf"), ("label", "class")):
        fitting = [name for name in said if any(word in str(name).lower() for word in words)]
        if len(fitting) != 1:
            raise ModelOutputError(f"none or several of its outputs ({', '.join(map(str, said))}) "
                                   f"are called {' or '.join(words)}")
        parts.append(said[fitting[0]])
    return parts[0], parts[1], parts[2]


def _told_apart(said: Sequence[Any]) -> Parts:
    boxes = [a for a in said if a.ndim >= 2 and a.shape[-1] == 4]
    whole = [a for a in said if a.dtype.kind in "iu" and not any(a is b for b in boxes)]
    if len(boxes) != 1 or len(whole) != 1:
        raise ModelOutputError("of its three outputs one must have rows of four numbers, and one "
                               "be of whole numbers")
    scores = next(a for a in said if a is not boxes[0] and a is not whole[0])
    return boxes[0], scores, whole[0]


def _split(parts: Parts, count: int) -> list[Parts]:
    """Arrays over a batch as one triple a picture; without a first axis they are of one picture."""
    boxes, scores, labels = parts
    if boxes.ndim == 2 and count == 1:
        return [(boxes, scores.reshape(-1), labels.reshape(-1))]
    if boxes.ndim != 3 or not len(boxes) == len(scores) == len(labels) == count:
        raise ModelOutputError(f"it answered {count} pictures with boxes of shape {boxes.shape}")
    return list(zip(boxes, scores, labels, strict=True))
