"""The whole of it on real video and pictures with the real models: what the project promises."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
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
    ((least,),) = con.execute(
        f"SELECT min_score FROM models() WHERE name = '{DETECTOR}'").fetchall()
    assert all(least <= score <= 1 for *_, score in rows)

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


# ImageNet's bird classes: 59 of its thousand.
BIRDS = frozenset((*range(7, 25), *range(80, 101), *range(127, 147)))


@pytest.fixture(scope="module")
def truth(data: Path) -> dict[str, int]:
    """The class of each ImageNet picture, by file name."""
    with (data / "images" / "imagenet" / "labels.csv").open(newline="") as file:
        return {row["image"]: int(row["class_index"]) for row in csv.DictReader(file)}


@pytest.mark.timeout(900)
def test_top_1_of_a_thousand_pictures(
    con: mlsql.Session, data: Path, truth: dict[str, int]
) -> None:
    from mlsql.udfs.models.efficientnet_lite0 import SPEC

    con.register("truth", pa.table({"image": list(truth), "label": [
        SPEC.labels[number] for number in truth.values()]}))
    result = con.execute(f"""
        SELECT count(*), count(*) FILTER (CLASSIFY(i.image) = t.label)
        FROM '{data}/images/imagenet/*.jpg' i JOIN truth t ON parse_filename(i.path) = t.image""")
    (model,) = result.stats.models
    ((total, right),) = result.fetchall()
    assert (model.model, model.calls, total) == (CLASSIFIER, 1000, 1000)
    assert right >= 780


@pytest.mark.timeout(900)
def test_birds_among_a_thousand_pictures(
    con: mlsql.Session, data: Path, truth: dict[str, int]
) -> None:
    result = con.execute(f"""
        SELECT parse_filename(path) FROM '{data}/images/imagenet/*.jpg'
        WHERE CONTAINS(image, 'bird', model => '{CLASSIFIER}')""")
    found = {name for (name,) in result.fetchall()}
    birds = {name for name, number in truth.items() if number in BIRDS}
    assert len(birds) == 59
    assert len(found & birds) >= 0.92 * 59
    assert len(found - birds) <= 5


@pytest.mark.timeout(900)
def test_persons_in_coco_pictures(con: mlsql.Session, data: Path) -> None:
    folder = data / "images" / "coco"
    con.execute("CREATE OR REPLACE TABLE boxes AS FROM read_csv(?)", [str(folder / "boxes.csv")])
    result = con.execute(f"""
        WITH found AS (
            SELECT CONTAINS(image, 'person') AS says,
                   EXISTS (FROM boxes b WHERE b.image = parse_filename(path) AND class = 'person')
                       AS shows
            FROM '{folder}/*.jpg')
        SELECT count(*), count(*) FILTER (shows), count(*) FILTER (says AND shows),
               count(*) FILTER (says) FROM found""")
    ((total, there, both, said),) = result.fetchall()
    assert (total, there) == (412, 208)
    assert [(m.model, m.calls) for m in result.stats.models] == [(DETECTOR, 412)]
    assert 2 * both / (there + said) >= 0.9


# 4. Hostile files


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlsql.Session]:
    """A session with a model that costs nothing: the brightness of a picture."""
    with mlsql.connect(config={"cache": False, "statement_timeout": 60}) as session:
        session.register_model(lambda pictures: [float(p.mean()) for p in pictures],
                               name="brightness", task="predict", output="DOUBLE")
        yield session


ROBUST = Path(os.environ.get("MLSQL_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data"
              ) / "robust"
HOSTILE = sorted(p for kind in ("video", "image") for p in (ROBUST / kind).glob("*"))


def test_the_hostile_files_are_there(data: Path) -> None:
    assert len(HOSTILE) > 80


@pytest.mark.parametrize("policy", ["raise", "null", "skip"])
@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_hostile_file_gives_rows_or_error_rows_or_one_clear_error(
    judge: mlsql.Session, path: Path, policy: str
) -> None:
    reader, media = ("read_video", "frame") if path.parent.name == "video" else (
        "read_images", "image")
    judge.execute(f"SET on_error = '{policy}'")
    try:
        listed = judge.execute(f"SELECT count(*) FROM {reader}(?)", [str(path)]).fetchall()[0][0]
        result = judge.execute(f"""SELECT count(*), count(b), min(b), max(b)
            FROM (SELECT brightness({media}) AS b FROM {reader}(?))""", [str(path)])
    except Error as error:
        assert path.name in str(error) and "\n" not in str(error)
        assert not isinstance(error, mlsql.InternalError)
    else:
        ((rows, seen, darkest, brightest),) = result.fetchall()
        assert seen == 0 or 0 <= darkest <= brightest <= 255
        if policy == "raise":
            assert rows == seen == listed
        elif policy == "null":
            assert rows == listed and rows - seen == len(result.errors)
        else:
            assert rows == seen == listed - len(result.errors)
        for error in result.errors:
            assert error.uri == str(path) and error.message
    assert judge.execute("SELECT 1").fetchall() == [(1,)]


# 5. Fifty-five clips are listed in a second


def test_listing_fifty_five_clips(con: mlsql.Session, data: Path) -> None:
    sql = f"""SELECT count(*), count(DISTINCT path), max(abs(ts - frame_id / 25.0)), max(width),
              bool_and(frame.frame = frame_id) FROM '{data}/video/tfl_jamcam/*.mp4'"""
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        result = uncached(con, sql)
        seconds.append(time.perf_counter() - started)
        ((frames, clips, wrong, width, right),) = result.fetchall()
        assert (frames, clips, width, right) == (14_697, 55, 352, True) and wrong < 1e-6
        assert result.stats.frames_decoded == 0
    assert min(seconds) < 1


def test_counting_decodes_nothing(con: mlsql.Session, data: Path) -> None:
    result = con.execute(f"SELECT count(*) FROM '{data}/video/tfl_jamcam/*.mp4'")
    assert result.fetchall() == [(14_697,)]
    assert (result.stats.calls, result.stats.frames_decoded) == (0, 0)


# 6. A view in a database file, asked again by another process


def test_a_view_over_a_folder_of_clips(data: Path, tmp_path: Path, root: Path) -> None:
    database = tmp_path / "clips.db"
    with mlsql.connect(str(database)) as session:
        session.execute(f"CREATE VIEW clips AS FROM '{data}/video/tfl_jamcam/*.mp4'")
        session.execute("""CREATE VIEW buses AS SELECT path, frame_id, ts FROM clips
                           WHERE frame_id = 0 AND CONTAINS(frame, 'vehicle')""")
    code = ("import sys, mlsql\n"
            "with mlsql.connect(sys.argv[1], read_only=True) as con:\n"
            "    print(con.execute('SELECT count(*) FROM clips').fetchall())\n"
            "    found = con.execute(\"SELECT count(*) FROM buses WHERE path LIKE '%20170928%'\")\n"
            "    print(found.stats.calls, found.stats.frames_decoded, len(found.fetchall()))")
    done = subprocess.run([sys.executable, "-c", code, str(database)], capture_output=True,
                          text=True, timeout=240, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    count, spent = done.stdout.splitlines()
    calls, decoded, rows = map(int, spent.split())
    assert count == "[(14697,)]" and rows == 1
    # One picture a clip, and one of the two clips that are byte for byte the same.
    assert 0 < calls == decoded <= 55
