"""Roads and squares seen by fixed and moving cameras: eight clips. No labels."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, listed

ORIGIN = ("CDnet via lrslibrary, PETS2001, Stuttgart via carShadowDetector, ThaiTin/data_Tin,"
          " opendatacam, ahmetozlu, cvTrafficCam, bgslibrary, pixeltable")
LICENCE = "MIT or Apache-2.0 where stated, otherwise none stated"


def where() -> Path:
    """The folder."""
    return in_test_data("video/street")


def tables() -> dict[str, str]:
    """One table, a row a frame; one clip has a variable frame rate."""
    paths = sorted(path for path in where().iterdir()
                   if path.suffix in (".mp4", ".avi", ".mpg"))
    return {"street": f"SELECT *, parse_filename(path) AS video FROM read_video({listed(paths)})"}
