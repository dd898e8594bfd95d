"""ENCODE."""

from __future__ import annotations

from sqlglot import exp

from mlsql.errors import ProgrammingError, unknown
from mlsql.udfs.encoder import QUALITIES, encoder
from mlsql.udfs.function import Call, Models, function, output
from mlsql.udfs.labels import literal_text


@function("ENCODE", "media [format] [quality]", "BLOB", shadows=True,
          example="COPY (SELECT frame_id, ENCODE(THUMBNAIL(frame, 128), 'jpeg') AS small\n"
                  "      FROM 'bikes.mp4' WHERE keyframe)\n"
                  "TO 'thumbnails.parquet'")
def encode(call: Call, models: Models) -> exp.Expr:
    """The picture as the bytes of a file: 'jpeg' (which is the default), 'png' or 'webp'.

    `quality` is 1 to 100, 90 for JPEG and 80 for WebP where none is given; PNG loses nothing and
    takes none. Both are constants. The bytes are the same whenever a picture is encoded anew; they
    are not kept in the cache. Given text, ENCODE is DuckDB's own function.
    """
    kind = _format(call)
    return output(encoder(kind, _quality(call, kind)), call.arguments[0])


def _format(call: Call) -> str:
    given = call.argument(1)
    if given is None:
        return "jpeg"
    name = literal_text(given)
    if name is None:
        raise ProgrammingError(f"{call.function.name}: the format is a word in quotes, as in 'png'")
    kind = {"jpg": "jpeg"}.get(name.lower(), name.lower())
    if kind not in QUALITIES:
        raise unknown("format", name, QUALITIES, f"of {call.function.name}: it writes "
                      + ", ".join(map(repr, QUALITIES)))
    return kind


def _quality(call: Call, kind: str) -> int | None:
    given, usual = call.argument(2), QUALITIES[kind]
    if given is None:
        return usual
    if usual is None:
        raise ProgrammingError(f"{call.function.name}: {kind} loses nothing and takes no quality")
    if not isinstance(given, exp.Literal) or given.is_string or not given.this.isdigit() \
            or not 1 <= int(given.this) <= 100:
        raise ProgrammingError(f"{call.function.name}: quality is a number from 1 to 100, not "
                               f"{given.sql(dialect='duckdb')}")
    return int(given.this)
