"""THUMBNAIL."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.pictures import made, side
from mlsql.udfs.spec import IMAGE_TYPE

_SIDE = 256


@function("THUMBNAIL", "media [size]", IMAGE_TYPE,
          example="SELECT frame_id, THUMBNAIL(frame, 128) AS small FROM 'bikes.mp4' WHERE keyframe")
def thumbnail(call: Call, models: Models) -> exp.Expr:
    """The picture made small: its longer side has at most `size` pixels, 256 where none is given.

    Its shape is kept, and a picture that is small already stays as it is.
    """
    size = call.argument(1) or exp.Literal.number(_SIDE)
    return made("thumbnail", call.arguments[0], {"size": side(call, size, "size")})
