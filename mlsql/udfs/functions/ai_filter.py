"""AI_FILTER."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from mlsql.errors import ProgrammingError, UnknownName
from mlsql.udfs.detections import contains
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.labels import literal_text

# What a question about a picture may begin with, before the thing that is asked for.
_OPENING = re.compile(
    r"""^(is|are)\s+there\s+|^there\s+(is|are)\s+|^(it\s+)?(contains?|shows?|has|have)\s+
    |^(does\s+)?(the|this|that|an?)\s+(image|picture|photo|photograph|frame|video|scene)s?\s+
     (contains?|shows?|includes?|depicts?|has|have|is\s+of|with)\s+
    |^(an?\s+)?(image|picture|photo|photograph|frame)s?\s+(of|with)\s+""", re.I | re.X)
_ENDING = re.compile(r"\s+(in|on)\s+(the|this|it)(\s+(image|picture|photo|frame|scene))?$", re.I)
_ARTICLE = re.compile(r"^(an?|the|any|some|at\s+least\s+one)\s+", re.I)


@function("AI_FILTER", "predicate media", "BOOLEAN", options="min_score model",
          example="SELECT frame_id FROM 'bikes.mp4'\n"
                  "WHERE frame_id IN (10, 120) AND AI_FILTER('Is there a bicycle?', frame)")
def ai_filter(call: Call, models: Models) -> exp.Expr:
    """Whether the picture is as the predicate says, under the name that warehouses give it.

    No language model reads the predicate: it is a label, several joined by 'and' or by 'or', or a
    plain question for them ('Is there a dog?', 'The picture shows a car or a bus'). It becomes
    CONTAINS, and one that names no label is an error.
    """
    predicate, media = call.arguments
    text = literal_text(predicate)
    if text is None:
        raise ProgrammingError(f"{call.function.name}: the predicate is a text in quotes")
    labels, joined = read(text)
    asked = replace(call, arguments=(media, predicate))
    try:
        return contains(asked, models, [exp.Literal.string(word) for word in labels], joined)
    except UnknownName as error:
        if str(error).startswith("unknown model"):
            raise
        raise UnknownName(
            f"{call.function.name} understands labels, such as 'a dog' or 'a car and a person', "
            f"and no language beyond that: {error}") from error


def read(text: str) -> tuple[list[str], type[exp.Connector]]:
    """The labels that a predicate asks for, and whether all or any of them."""
    plain = _ENDING.sub("", _OPENING.sub("", text.strip().rstrip("?.! ").strip()))
    parts = re.split(r"\s+or\s+", plain, flags=re.I)
    joined: type[exp.Connector] = exp.Or
    if len(parts) == 1:
        parts, joined = re.split(r"\s+and\s+|\s+with\s+", plain, flags=re.I), exp.And
    return [_ARTICLE.sub("", part.strip()).strip() for part in parts], joined
