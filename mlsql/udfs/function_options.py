"""What the options of functions mean, and what they are where they are not given."""

from __future__ import annotations

from collections.abc import Mapping

_MEANINGS: Mapping[str, tuple[str, str]] = {
    "min_score": ("The score from which on a thing or label counts.", "the model's own"),
    "min_count": ("How many things there must be at least; it takes a detector.", "1"),
    "model": ("The model to ask, by name.", "by the labels: a detector that knows them, else a "
              "classifier, of mlsql's own before others"),
    "annotate.labels": ("Whether labels are written to the boxes.", "true"),
    "annotate.scores": ("Whether scores are.", "true"),
    "annotate.width": ("Width of the lines in pixels.", "by the size of the picture"),
    "embed.model": ("The model to ask, by name.", "the one that takes such arguments"),
    "similarity.model": ("The model to ask, by name.", "the one that takes such arguments, or the "
                         "two of one space"),
    "classify.model": ("The classifier to ask, by name.", "the one that knows the labels"),
    "ai_classify.model": ("The classifier to ask, by name.", "the one that knows the labels"),
    "classify_scores.model": ("The classifier to ask, by name.", "`efficientnet_lite0`"),
    "detect.model": ("The detector to ask, by name.", "the one that knows the labels"),
    "count_objects.model": ("The detector to ask, by name.", "the one that knows the label"),
}


def meaning_of(function: str, option: str) -> tuple[str, str]:
    """An option's meaning and default; one that nobody described is a KeyError."""
    own = f"{function.lower()}.{option}"
    return _MEANINGS[own] if own in _MEANINGS else _MEANINGS[option]
