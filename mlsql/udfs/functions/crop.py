"""CROP."""

from __future__ import annotations

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.pictures import made, number
from mlsql.udfs.spec import IMAGE_TYPE
from mlsql.udfs.template import expression

_CORNERS = ("x1", "y1", "x2", "y2")


@function("CROP", "media box [y1] [x2] [y2]", IMAGE_TYPE,
          usage="CROP(media, box) or CROP(media, x1, y1, x2, y2)",
          example="SELECT d.label, CLASSIFY(CROP(frame, d)) AS kind\n"
                  "FROM (SELECT frame, unnest(DETECT(frame, ['car'])) AS d\n"
                  "      FROM 'bikes.mp4' WHERE frame_id = 30)")
def crop(call: Call, models: Models) -> exp.Expr:
    """The part of a picture inside a box: corners in pixels, or a struct that has them.

    Pixels that the box only touches belong to it, and so does nothing outside the picture: a box
    that reaches over the edge is clipped. One that lies outside altogether, or whose second corner
    is left of or above the first, is an error of the row (see `on_error`).
    """
    media, *box = call.arguments
    if len(box) not in (1, 4):
        raise ProgrammingError(f"{call.function.usage}: not {len(call.arguments)} arguments")
    corners = box if len(box) == 4 else _corners(call, box[0])
    return made("crop", media, {
        name: number(call, corner, name)
        for name, corner in zip(_CORNERS, corners, strict=True)})


def _corners(call: Call, box: exp.Expr) -> list[exp.Expr]:
    if isinstance(box, exp.Array):
        if len(box.expressions) != 4:
            raise ProgrammingError(f"{call.function.name}: a box is [x1, y1, x2, y2], "
                                   f"not {len(box.expressions)} numbers")
        return list(box.expressions)
    if isinstance(box, exp.Literal):
        raise ProgrammingError(f"{call.function.name}: a box is a struct with x1, y1, x2 and y2, "
                               f"as DETECT gives, not {box.this}")
    return [expression(f"struct_extract(:box, '{name}')", box=box) for name in _CORNERS]
