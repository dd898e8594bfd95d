"""Ten frames of 32x32, frame i filled with the value i, and models whose answers follow from that.

dummy sees a person on even frames and a bicycle on odd ones; multi sees two of person, bicycle and
car, by i mod 3; value reads the pixels; digits gives a list. What each query must answer, and how
many frames it may look at, is written beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsql.errors import ProgrammingError, UnknownName
from mlsql.session import Session
from tests.media_samples import Pixels, decode_all, grey, write_video

NAMES = ("person", "bicycle", "car")
Row = tuple[Any, ...]


def value_of(picture: Pixels) -> int:
    assert picture.shape == (32, 32, 3) and int(picture.min()) == int(picture.max())
    return int(picture[0, 0, 0])


def dummy(pictures: list[Pixels]) -> list[Any]:
    return [[(NAMES[value_of(p) % 2], 0.9, 1, 2, 31, 30)] for p in pictures]


def multi(pictures: list[Pixels]) -> list[Any]:
    found = []
    for picture in pictures:
        i = value_of(picture)
        found.append([(NAMES[i % 3], 0.9, 0, 0, 16, 32), (NAMES[(i + 1) % 3], 0.6, 16, 0, 32, 32)])
    return found


def value(pictures: list[Pixels]) -> list[int]:
    return [value_of(picture) for picture in pictures]


def digits(pictures: list[Pixels]) -> list[list[int]]:
    return [list(range(value_of(picture) % 4)) for picture in pictures]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "ten.mp4"
    return write_video(path, [grey(i) for i in range(10)], codec="libx264rgb", pix_fmt="rgb24",
                       options={"qp": "0"})


@pytest.fixture(scope="module")
def session(film: Path) -> Iterator[Session]:
    with Session(config={"cache": False}) as session:
        session.register_model(dummy, task="detect", labels=NAMES[:2])
        session.register_model(multi, task="detect", labels=NAMES)
        session.register_model(value, task="predict", output="INTEGER")
        session.register_model(digits, task="predict", output="INTEGER[]")
        session.execute(f"CREATE VIEW film AS FROM '{film}'")
        yield session


def test_the_film_is_lossless(film: Path) -> None:
    pictures = decode_all(film)
    assert len(pictures) == 10
    for i, picture in enumerate(pictures):
        assert np.array_equal(picture, grey(i))


# The query, its rows, and the calls of models that it takes.
CASES: list[tuple[str, list[Row], int]] = [
    ("SELECT count(*), min(ts), max(ts), min(width), max(height) FROM film",
     [(10, 0.0, 0.9, 32, 32)], 0),
    ("SELECT frame_id, value(frame) FROM film ORDER BY frame_id",
     [(i, i) for i in range(10)], 10),
    ("SELECT frame_id FROM film WHERE contains(frame, 'person', model => 'dummy') ORDER BY 1",
     [(0,), (2,), (4,), (6,), (8,)], 10),
    ("SELECT frame_id FROM film WHERE NOT contains(frame, 'person', model => 'dummy') "
     "AND frame_id > 4 ORDER BY 1", [(5,), (7,), (9,)], 5),
    ("SELECT count(*) FROM film WHERE contains(frame, 'car', model => 'multi', min_score => 0.8)",
     [(3,)], 10),
    ("SELECT count(*) FROM film WHERE contains(frame, 'car', model => 'multi')", [(6,)], 10),
    ("SELECT frame_id FROM film WHERE contains_all(frame, ['car', 'person'], model => 'multi') "
     "ORDER BY 1", [(2,), (5,), (8,)], 10),
    ("SELECT count(*) FROM film WHERE contains_any(frame, ['car', 'person'], model => 'multi')",
     [(10,)], 10),
    ("SELECT sum(count_objects(frame, 'bicycle', model => 'multi')), "
     "sum(count_objects(frame, 'bicycle', model => 'dummy')) FROM film", [(7, 5)], 20),
    ("SELECT frame_id, score(frame, 'car', model => 'multi') AS s FROM film WHERE frame_id < 3 "
     "ORDER BY s, frame_id", [(0, 0.0), (1, 0.6), (2, 0.9)], 3),
    # UNNEST
    ("SELECT d.label, count(*) FROM film, UNNEST(detect(frame, model => 'multi')) AS u(d) "
     "GROUP BY ALL ORDER BY ALL", [("bicycle", 7), ("car", 6), ("person", 7)], 10),
    ("SELECT frame_id, d.label, d.x1 FROM (SELECT frame_id, unnest(detect(frame, "
     "model => 'multi')) AS d FROM film) WHERE d.score < 0.7 AND frame_id < 3 ORDER BY 1",
     [(0, "bicycle", 16.0), (1, "car", 16.0), (2, "person", 16.0)], 10),
    ("SELECT frame_id, unnest(digits(frame)) AS n FROM film WHERE frame_id IN (3, 4, 5) "
     "ORDER BY ALL", [(3, 0), (3, 1), (3, 2), (5, 0)], 3),
    ("SELECT frame_id, n FROM film LEFT JOIN UNNEST(digits(frame)) AS u(n) ON TRUE "
     "WHERE frame_id IN (3, 4) ORDER BY ALL", [(3, 0), (3, 1), (3, 2), (4, None)], 2),
    ("SELECT unnest(detect(frame, model => 'dummy'), recursive := true) FROM film "
     "WHERE frame_id = 3", [("bicycle", 0.9, 1.0, 2.0, 31.0, 30.0)], 1),
    ("SELECT label, max(area) FROM (SELECT d.label, (d.x2 - d.x1) * (d.y2 - d.y1) AS area FROM "
     "(SELECT unnest(detect(frame, model => 'dummy')) AS d FROM film)) GROUP BY 1 ORDER BY 1",
     [("bicycle", 840.0), ("person", 840.0)], 10),
    # arrays
    ("SELECT frame_id FROM film WHERE list_contains(list_transform(detect(frame, "
     "model => 'multi'), lambda d: d.label), 'car') AND value(frame) % 2 = 0 ORDER BY 1",
     [(2,), (4,), (8,)], 16),
    ("SELECT frame_id, digits(frame)[1:2], len(digits(frame)) FROM film WHERE frame_id > 6 "
     "ORDER BY 1", [(7, [0, 1], 3), (8, [], 0), (9, [0], 1)], 3),
    ("SELECT list(frame_id ORDER BY frame_id) FROM film WHERE digits(frame) = [0]",
     [([1, 5, 9],)], 10),
    ("SELECT [d.label FOR d IN detect(frame, model => 'multi') IF d.score > 0.8] FROM film "
     "WHERE frame_id BETWEEN 4 AND 5 ORDER BY frame_id", [(["bicycle"],), (["car"],)], 2),
    ("SELECT list_sum(list(value(frame))), list_distinct(flatten(list(digits(frame)))) IS NOT NULL "
     "FROM film", [(45, True)], 20),
    # sampling
    ("SELECT frame_id, value(frame) FROM read_video($film, stride => 3) ORDER BY 1",
     [(0, 0), (3, 3), (6, 6), (9, 9)], 4),
    ("SELECT frame_id FROM read_video($film, stride => 2) "
     "WHERE contains(frame, 'person', model => 'dummy') AND ts > 0.3 ORDER BY 1",
     [(4,), (6,), (8,)], 3),
    ("SELECT count(*), max(value(frame)) FROM read_video($film, start => 0.2, \"end\" => 0.6) "
     "WHERE frame_id % 2 = 1", [(2, 5)], 2),
    ("SELECT count(*) FROM read_video($film, fps => 5) WHERE value(frame) % 2 = 0", [(5,)], 5),
    ("SELECT value(frame) FROM read_video($film, every => 0.4) ORDER BY ts", [(0,), (4,), (8,)], 3),
    # runs of frames
    ("SELECT frame_id // 4 AS run, list(frame_id ORDER BY frame_id), "
     "sum(value(frame)) FROM film GROUP BY run ORDER BY run",
     [(0, [0, 1, 2, 3], 6), (1, [4, 5, 6, 7], 22), (2, [8, 9], 17)], 10),
    ("SELECT frame_id // 3 AS run, bool_and(contains(frame, 'car', model => 'multi')) AS f "
     "FROM film GROUP BY ALL HAVING count(*) = 3 ORDER BY 1",
     [(0, False), (1, False), (2, False)], 10),
    ("SELECT min(frame_id), max(frame_id) FROM (SELECT frame_id, frame_id - row_number() OVER "
     "(ORDER BY frame_id) AS island FROM film WHERE contains(frame, 'person', model => 'multi')) "
     "GROUP BY island ORDER BY 1", [(0, 0), (2, 3), (5, 6), (8, 9)], 10),
    ("SELECT count(*) FROM (SELECT frame_id, value(frame) - lag(value(frame)) OVER "
     "(ORDER BY frame_id) AS step FROM film) WHERE step = 1", [(9,)], 10),
    ("SELECT frame_id, sum(value(frame)) OVER (ORDER BY frame_id ROWS 2 PRECEDING) AS s FROM film "
     "QUALIFY s > 20 ORDER BY 1", [(8, 21), (9, 24)], 10),
    ("SELECT first(frame_id ORDER BY frame_id), last(frame_id ORDER BY frame_id) FROM film "
     "GROUP BY contains(frame, 'person', model => 'dummy') ORDER BY 1", [(0, 8), (1, 9)], 10),
    # joins, order, limits
    ("SELECT f.frame_id, g.frame_id FROM film AS f JOIN film AS g "
     "ON value(f.frame) = value(g.frame) + 8 ORDER BY 1", [(8, 0), (9, 1)], 10),
    ("SELECT name, count(frame_id) FROM (VALUES ('person'), ('car'), ('boat')) AS n(name) "
     "LEFT JOIN (SELECT frame_id, unnest(detect(frame, model => 'multi')).label AS label "
     "FROM film) AS d ON d.label = name GROUP BY ALL ORDER BY ALL",
     [("boat", 0), ("car", 6), ("person", 7)], 10),
    ("SELECT frame_id FROM film ORDER BY value(frame) DESC LIMIT 2", [(9,), (8,)], 10),
    ("SELECT frame_id FROM film WHERE ts < 0.35 ORDER BY score(frame, 'car', model => 'multi') "
     "DESC, frame_id LIMIT 2 OFFSET 1", [(1,), (0,)], 4),
    ("SELECT DISTINCT value(frame) % 3 AS k FROM film ORDER BY k", [(0,), (1,), (2,)], 10),
    ("SELECT frame_id FROM film WHERE contains(frame, 'person', model => 'dummy') "
     "AND contains(frame, 'car', model => 'multi') AND frame_id < 4 ORDER BY 1", [(2,)], 6),
    ("SELECT frame_id FROM film WHERE value(frame) = (SELECT max(value(frame)) FROM film) ",
     [(9,)], 10),
    ("WITH seen AS (SELECT frame_id, value(frame) AS v FROM film) SELECT a.frame_id FROM seen AS a "
     "JOIN seen AS b ON a.v = b.v * 3 WHERE a.v > 0 ORDER BY 1", [(3,), (6,), (9,)], 10),
    ("SELECT count(frame) FROM film", [(10,)], 0),
]


def test_there_are_enough() -> None:
    assert len(CASES) >= 30 and len({sql for sql, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("recorded", [False, True], ids=["peeled", "recorded"])
@pytest.mark.parametrize(("sql", "expected", "calls"), CASES, ids=[sql for sql, _, _ in CASES])
def test_queries(
    sql: str, expected: list[Row], calls: int, recorded: bool, session: Session, film: Path
) -> None:
    session._runner.peels = not recorded
    try:
        result = session.execute(sql, {"film": str(film)} if "$film" in sql else None)
        assert result.fetchall() == expected
    finally:
        session._runner.peels = True
    if not recorded:
        assert result.stats.calls <= calls
        assert not any("did not bind" in warning for warning in result.warnings)


def test_the_first_frames_are_enough_for_a_limit(session: Session) -> None:
    result = session.execute("SELECT frame_id FROM film WHERE contains(frame, 'bicycle', "
                             "model => 'dummy') ORDER BY frame_id LIMIT 1")
    assert result.fetchall() == [(1,)]
    assert result.stats.calls <= 10


@pytest.mark.parametrize(("sql", "words"), [
    ("SELECT frame_idd FROM film WHERE value(frame) > 1", ["frame_idd", "frame_id"]),
    ("SELECT value(frme) FROM film", ["frme", "frame"]),
    ("SELECT f.frme FROM film AS f WHERE value(frame) > 1", ["frme"]),
    ("SELECT d.labl FROM (SELECT unnest(detect(frame, model => 'multi')) AS d FROM film)",
     ["labl", "label"]),
    ("SELECT contains(ts, 'person', model => 'dummy') FROM film", ["ts", "DOUBLE"]),
    ("SELECT value(ts) FROM film", ["value", "ts", "DOUBLE"]),
    ("SELECT frame_id FROM film WHERE value(frame) > 1 ORDER BY frameid", ["frameid"]),
    ("SELECT frame_id, sum(value(frame)) FROM film", ["frame_id", "GROUP BY"]),
    ("SELECT value(frame, 3) FROM film", ["value", "one argument"]),
])
def test_errors_name_the_column_at_fault(sql: str, words: list[str], session: Session) -> None:
    with pytest.raises(ProgrammingError) as caught:
        session.execute(sql)
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, str(caught.value)


@pytest.mark.parametrize(("sql", "near"), [
    ("SELECT contains(frame, 'persn', model => 'dummy') FROM film", "person"),
    ("SELECT contains(frame, 'car', model => 'dummmy') FROM film", "dummy"),
])
def test_unknown_names(sql: str, near: str, session: Session) -> None:
    with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
        session.execute(sql)


def test_a_label_that_the_model_lacks(session: Session) -> None:
    with pytest.raises(UnknownName, match=r"car.*dummy"):
        session.execute("SELECT contains(frame, 'car', model => 'dummy') FROM film")
