"""RESIZE."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.pictures import made, side
from mlsql.udfs.spec import IMAGE_TYPE


@function("RESIZE", "media width height", IMAGE_TYPE,
          example="SELECT RESIZE(frame, 320, 136) AS half FROM 'bikes.mp4' WHERE frame_id = 10")
def resize(call: Call, models: Models) -> exp.Expr:
    """The picture stretched to just that many pixels; THUMBNAIL keeps its shape."""
    media, width, height = call.arguments
    return made("resize", media, {"width": side(call, width, "width"),
                                  "height": side(call, height, "height")})
