"""The whole of it on real video and pictures with the real models: what the project promises."""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.errors import Error

DETECTOR, CLASSIFIER = "ssd_mobilenet_v2", "efficientnet_lite0"


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlsql.Session]:
    """One session with one cache, so that no picture is looked at twice in these tests."""
    folder = tmp_path_factory.mktemp("spine")
    with mlsql.connect(config={"cache_dir": str(folder)}) as session:
        yield session


def uncached(con: mlsql.Session, sql: str, parameters: Any = None) -> mlsql.Result:
    """The result without the cache, so that every call is made."""
    con.execute("SET cache = off")
    try:
        return con.execute(sql, parameters)
    finally:
        con.execute("SET cache = on")


# 1. Moments of a street video in which a person and a bicycle are in the picture


def moments(bikes: Path) -> str:
    return f"""SELECT frame_id, ts, SCORE(frame, 'bicycle') AS s FROM '{bikes}'
               WHERE CONTAINS(frame, 'person') AND CONTAINS(frame, 'bicycle') ORDER BY ts"""


def test_the_moments_with_a_person_and_a_bicycle(con: mlsql.Session, bikes: Path) -> None:
    first = con.execute(moments(bikes))
    rows = first.fetchall()
    (model,) = first.stats.models
    assert model.model == DETECTOR
    assert (model.calls, model.cached, model.frames_decoded) == (250, 0, 250)  # not 500
    frames = [row[0] for row in rows]
    assert len({*frames} & {*range(110, 136)}) >= 15
    assert any(abs(frame - 190) <= 5 for frame in frames)
    assert sum(100 <= f <= 145 or 180 <= f <= 240 for f in frames) >= 0.8 * len(frames)
    assert all(ts == pytest.approx(frame / 25, abs=1e-6) for frame, ts, _ in rows)
    assert all(0.4 <= score <= 1 for *_, score in rows)

    second = con.execute(moments(bikes))
    assert (second.stats.calls, second.stats.cached, second.stats.frames_decoded) == (0, 250, 0)
    assert second.fetchall() == rows


def test_other_questions_to_the_same_frames_cost_nothing(con: mlsql.Session, bikes: Path) -> None:
    con.execute(moments(bikes))
    result = con.execute(f"""
        SELECT d.label, count(*) AS n, max(d.score) AS best
        FROM (SELECT UNNEST(DETECT(frame, min_score => 0.5)) AS d FROM '{bikes}')
        GROUP BY ALL ORDER BY n DESC""")
    labels = {row[0]: row[1] for row in result.fetchall()}
    assert result.stats.calls == 0 and {"person", "bicycle", "car"} <= set(labels)
    counted = con.execute(f"""
        SELECT COUNT_OBJECTS(frame, 'vehicle') >= COUNT_OBJECTS(frame, 'car'), count(*)
        FROM '{bikes}' WHERE NOT CONTAINS_ANY(frame, ['boat', 'airplane']) GROUP BY ALL""")
    assert counted.stats.calls == 0 and [row[0] for row in counted.fetchall()] == [True]


# 2. The detector sees what the cheap conditions leave, and no more


def test_cheap_conditions_first(con: mlsql.Session, bikes: Path) -> None:
    result = uncached(con, f"""SELECT frame_id FROM '{bikes}' WHERE frame_id BETWEEN 100 AND 139
                               AND CONTAINS(frame, 'bicycle') ORDER BY 1""")
    assert (result.stats.calls, result.stats.frames_decoded) == (40, 40)
    assert 15 <= len(result.fetchall()) <= 40


def test_limit_stops_within_a_batch_of_the_first_hit(con: mlsql.Session, bikes: Path) -> None:
    con.execute(moments(bikes))
    hits = [row[0] for row in con.execute(
        f"SELECT frame_id FROM '{bikes}' WHERE frame_id BETWEEN 100 AND 139 "
        "AND CONTAINS(frame, 'bicycle') ORDER BY frame_id").fetchall()]
    con.execute("SET batch_size = 8")
    try:
        result = uncached(con, f"""SELECT frame_id FROM '{bikes}' WHERE frame_id BETWEEN 100 AND 139
                                   AND CONTAINS(frame, 'bicycle') ORDER BY ts LIMIT 1""")
    finally:
        con.execute("RESET batch_size")
    assert result.fetchall() == [(hits[0],)]
    before = hits[0] - 100  # frames looked at in vain
    assert before < result.stats.calls <= (before // 8 + 2) * 8


def test_only_the_frames_inside_labelled_intervals(con: mlsql.Session, bikes: Path) -> None:
    con.execute("""CREATE OR REPLACE TABLE spans AS SELECT * FROM (VALUES
        ('early', 10, 14), ('crossing', 118, 122), ('late', 205, 207)) t(label, lo, hi)""")
    result = uncached(con, f"""
        SELECT label, count(*) FILTER (CONTAINS(frame, 'bicycle')) AS n, count(*) AS frames
        FROM '{bikes}' JOIN spans ON frame_id BETWEEN lo AND hi GROUP BY label ORDER BY label""")
    assert (result.stats.calls, result.stats.frames_decoded) == (13, 13)
    found = {label: (n, frames) for label, n, frames in result.fetchall()}
    assert {label: frames for label, (_, frames) in found.items()} == {
        "early": 5, "crossing": 5, "late": 3}
    assert found["crossing"][0] >= 3 and found["early"][0] == 0


# 3. A thousand ImageNet pictures, and the detector on COCO


@pytest.fixture(scope="module")
def imagenet(con: mlsql.Session, data: Path) -> Path:
    folder = data / "images" / "imagenet"
    con.execute("CREATE OR REPLACE TABLE truth AS SELECT * FROM read_csv(?)",
                [str(folder / "labels.csv")])
    return folder


BIRDS = range(7, 25), range(80, 101), range(127, 147)  # ImageNet's bird classes


def test_top_1_of_a_thousand_pictures(con: mlsql.Session, imagenet: Path) -> None:
    started = time.monotonic()
    result = con.execute(f"""
        SELECT count(*), count(*) FILTER (CLASSIFY(i.image) = lab.label)
        FROM '{imagenet}/**/*.*' i JOIN truth t ON parse_filename(i.path) = parse_filename(t.image)
        JOIN (SELECT covers[1] AS label, generate_subscripts([1], 1) FROM labels('{CLASSIFIER}')
              LIMIT 0) lab ON true""") if False else con.execute(f"""
        SELECT count(*), count(*) FILTER (struct_extract(best, 'label') = t.label)
        FROM (SELECT path, {{'label': CLASSIFY(image)}} AS best FROM '{imagenet}/*.JPEG') i
        JOIN truth t ON parse_filename(i.path) = parse_filename(t.image)""")
    ((total, right),) = result.fetchall()
    assert total == 1000
    assert right >= 780
    assert time.monotonic() - started < 300
