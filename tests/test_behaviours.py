"""What users of such engines trip over, one by one, on models that count what they are asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.errors import (
    CallLimit,
    MediaError,
    ModelOutputError,
    ProgrammingError,
    TimeLimit,
    UnknownName,
)
from tests.media_samples import encode_picture, grey, ten_greys
from tests.sessions import CAT, Asking, make_pictures, make_video, number_of, reference, see


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


# 1. One call an input, however often it is asked for


@pytest.mark.parametrize("sql", [
    "SELECT sq(x) FROM range(5) t(x) WHERE sq(x) >= 0 ORDER BY sq(x)",
    "SELECT sq(x), sq(x) + 1, -sq(x) FROM range(5) t(x)",
    "SELECT sq(x) AS f, count(*) FROM range(5) t(x) GROUP BY sq(x) HAVING sq(x) >= 0 ORDER BY f",
    "SELECT sum(sq(x)), max(sq(x)), count(*) FILTER (sq(x) > 3) FROM range(5) t(x)",
    "SELECT sq(x) FROM range(500) t(y), (SELECT y % 5 AS x)",
    "SELECT sq(x % 5) FROM range(10000) t(x)",
    "SELECT sq(a.x) + sq(b.x) FROM range(5) a(x), range(5) b(x)",
    "SELECT sq(x) FROM range(5) t(x) UNION ALL SELECT sq(x) FROM range(5) t(x)",
    "SELECT * FROM range(5) t(x) WHERE sq(x) IN (SELECT sq(y) FROM range(5) u(y))",
    "SELECT x FROM range(5) t(x) QUALIFY row_number() OVER (ORDER BY sq(x)) + sq(x) > 0",
    "WITH a AS (SELECT x, sq(x) AS f FROM range(5) t(x)) SELECT f FROM a UNION SELECT f FROM a",
])
def test_one_statement_asks_once_for_each_distinct_input(s: Asking, sql: str) -> None:
    result = s.run(sql)
    assert sorted(s.asked("sq")) == [0, 1, 2, 3, 4]
    assert result.stats.calls == 5


def test_equal_inputs_are_one_however_they_are_written(s: Asking) -> None:
    s.rows("SELECT sq(x), sq(x + 0), SQ(X), sq(x::INTEGER), sq(\"x\") FROM range(5) t(x)")
    assert sorted(s.asked("sq")) == [0, 1, 2, 3, 4]


def test_functions_of_one_model_share_its_output(s: Asking, video: Path) -> None:
    result = s.run(f"""
        SELECT CONTAINS(frame, 'cat', model => 'eye'), SCORE(frame, 'dog', model => 'eye'),
               COUNT_OBJECTS(frame, 'bird', model => 'eye'), DETECT(frame, model => 'eye')
        FROM '{video}' WHERE CONTAINS(frame, 'dog', model => 'eye', min_score => 0.3)
        ORDER BY SCORE(frame, 'cat', model => 'eye')""")
    assert len(s.asked("eye")) == result.stats.calls == 10
    assert [row[:3] for row in result.fetchall()] == [
        (False, 0.8, 0), (False, 0.8, 0), (True, 0.8, 0), (True, 0.8, 0)]


def test_two_columns_with_the_same_pictures_share_the_outputs(s: Asking, video: Path) -> None:
    found = s.rows(f"""
        SELECT a.frame_id FROM '{video}' a, '{video}' b WHERE a.frame_id = b.frame_id
        AND CONTAINS(a.frame, 'cat', model => 'eye') AND CONTAINS(b.frame, 'dog', model => 'eye')
        ORDER BY 1""")
    assert found == [(0,), (6,)] and len(s.asked("eye")) == 10


def test_the_counters_of_a_statement(s: Asking, video: Path) -> None:
    result = s.run(f"SELECT CONTAINS(frame, 'cat', model => 'eye') FROM '{video}'")
    (model,) = result.stats.models
    assert (model.model, model.calls, model.cached, model.frames_decoded) == ("eye", 10, 0, 10)
    assert model.batches == len(s.batches("eye")) and model.errors == 0
    assert model.seconds_decode > 0 and result.stats.seconds >= result.stats.seconds_sql > 0
    ((name, calls, decoded),) = s.rows("SELECT model, calls, frames_decoded FROM last_query()")
    assert (name, calls, decoded) == ("eye", 10, 10)


def test_cheap_conditions_come_first_and_later_models_see_what_earlier_let_through(
    s: Asking, video: Path
) -> None:
    assert s.rows("SELECT x FROM range(9) t(x) WHERE sq(x) > 9 AND x < 5") == [(4,)]
    assert sorted(s.asked("sq")) == [0, 1, 2, 3, 4]
    s.rows(f"""SELECT frame_id FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'eye')
               AND CLASSIFY(frame, model => 'kind') = 'cat'""")
    assert (len(s.asked("eye")), len(s.asked("kind"))) in {(10, 5), (5, 10)}


# 2. NULL


@pytest.mark.parametrize("sql", [
    "SELECT sq(NULL)", "SELECT sq(x) FROM (VALUES (NULL), (NULL)) t(x)",
    "SELECT sq(CAST(NULL AS INTEGER))", "SELECT up(NULL) FROM range(3)",
    "SELECT IMAGE(NULL)", "SELECT SCORE(IMAGE(p), 'cat', model => 'eye') FROM "
    "(SELECT CAST(NULL AS VARCHAR) AS p)", "SELECT CONTAINS(NULL::STRUCT(uri VARCHAR, frame BIGINT,"
    " data BLOB), 'cat', model => 'eye')", "SELECT kind(NULL)",
    "SELECT CLASSIFY(IMAGE(NULL), model => 'kind')",
    "SELECT CLASSIFY_SCORES(IMAGE(NULL), model => 'kind')",
    "SELECT DETECT(IMAGE(NULL), ['cat'], model => 'eye')",
])
def test_null_in_null_out_and_the_model_is_not_called(s: Asking, sql: str) -> None:
    assert {row for row in s.rows(sql)} == {(None,)}
    assert s.calls == 0


def test_null_among_others(s: Asking) -> None:
    assert s.rows("SELECT sq(x) FROM (VALUES (2), (NULL), (3)) t(x)") == [(4,), (None,), (9,)]
    assert sorted(s.asked("sq")) == [2, 3]
    assert s.rows("SELECT x FROM (VALUES (2), (NULL)) t(x) WHERE sq(x) IS NULL") == [(None,)]


@pytest.mark.parametrize("sql", [
    "SELECT sq(x) FROM range(5) t(x) WHERE x > 9", "SELECT sq(x) FROM range(0) t(x)",
    "SELECT x FROM range(5) t(x) WHERE x > 9 AND sq(x) > 1 AND big(x)",
    "SELECT x FROM range(5) t(x) WHERE false AND sq(x) > 1",
    "SELECT a.x FROM range(3) a(x) JOIN range(3) b(x) ON a.x = b.x + 7 AND sq(a.x) > 1",
    "SELECT CASE WHEN x > 9 THEN sq(x) END FROM range(5) t(x)",
    "SELECT coalesce(x, sq(7)) FROM range(5) t(x)",
    "SELECT x FROM range(5) t(x) WHERE x < 9 OR sq(x) > 1",
    "SELECT max(x) FILTER (sq(x) > 1) FROM range(0) t(x)",
])
def test_no_rows_no_call(s: Asking, sql: str) -> None:
    assert s.rows(sql) == reference().sql(sql).fetchall()
    assert s.calls == 0


# 3. The answer does not depend on how the work is cut


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 11, 1000])
def test_batch_size(video: Path, size: int) -> None:
    with Asking(batch_size=size) as s:
        found = s.rows(f"""SELECT frame_id, SCORE(frame, 'dog', model => 'eye') FROM '{video}'
                           WHERE CONTAINS(frame, 'cat', model => 'eye') ORDER BY 1""")
        assert found == [(0, 0.8), (2, 0.0), (4, 0.0), (6, 0.8), (8, 0.0)]
        assert max(s.batches("eye")) <= size and len(s.asked("eye")) == 10
        assert s.value("SELECT sum(sq(x)) FROM range(25) t(x)") == sum(x * x for x in range(25))
        assert max(s.batches("sq")) <= size


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_and_memory(video: Path, workers: int) -> None:
    with Asking(workers=workers, memory_budget="4kB", batch_size=3) as s:
        assert s.value(f"SELECT list(frame_id ORDER BY frame_id) FROM '{video}' "
                       "WHERE CONTAINS(frame, 'dog', model => 'eye')") == [0, 3, 6, 9]


def test_pictures_of_many_sizes_in_one_batch(s: Asking, tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(8, 8), (40, 16), (16, 40), (3, 90), (64, 64)]):
        picture = grey(20 * number, height, width)
        (tmp_path / f"{number}.png").write_bytes(encode_picture(picture, "PNG"))
    s.add("shape", lambda p: f"{p.shape[1]}x{p.shape[0]}:{number_of(p)}", task="predict",
          output="VARCHAR")
    assert s.rows(f"SELECT shape(image), width, height FROM '{tmp_path}/*.png' ORDER BY path") == [
        ("8x8:0", 8, 8), ("16x40:1", 16, 40), ("40x16:2", 40, 16), ("90x3:3", 90, 3),
        ("64x64:4", 64, 64)]


# 4. Answers that are not one an input


def test_an_answer_too_few_never_shifts_the_others(s: Asking) -> None:
    s.session.register_model(lambda xs: [10 * x for x in xs if x != 2], name="lossy",
                             task="predict", input="BIGINT", output="BIGINT")
    with pytest.raises(ModelOutputError, match="'lossy'"):
        s.rows("SELECT x, lossy(x) FROM range(5) t(x)")
    s.run("SET on_error = 'null'")
    assert s.rows("SELECT x, lossy(x) FROM range(5) t(x)") == [
        (0, 0), (1, 10), (2, None), (3, 30), (4, 40)]
    s.run("SET on_error = 'skip'")
    assert s.rows("SELECT x, lossy(x) FROM range(5) t(x)") == [(0, 0), (1, 10), (3, 30), (4, 40)]


@pytest.mark.parametrize("answer", [
    lambda xs: [None for _ in xs], lambda xs: [[x, x] for x in xs], lambda xs: [*xs, 1],
    lambda xs: [], lambda xs: 7, lambda xs: None, lambda xs: ["word" for _ in xs],
    lambda xs: [float("nan") for _ in xs], lambda xs: {x: x for x in xs},
])
def test_other_answers_than_declared_are_errors_that_name_the_model(
    s: Asking, answer: Any
) -> None:
    s.session.register_model(answer, name="odd", task="predict", input="BIGINT", output="BIGINT")
    with pytest.raises(ModelOutputError, match="'odd'"):
        s.rows("SELECT odd(x) FROM range(3) t(x)")
    s.run("SET on_error = 'null'")
    assert s.rows("SELECT odd(x) FROM range(3) t(x)") == [(None,), (None,), (None,)]


def test_a_label_that_the_model_did_not_declare(s: Asking, video: Path) -> None:
    s.add("fox", lambda p: [("fox", 0.9, 0, 0, 1, 1)], task="detect", labels=["cat"])
    with pytest.raises(ModelOutputError, match=r"'fox' gave the label 'fox', .* its 1 labels"):
        s.rows(f"SELECT CONTAINS(frame, 'cat', model => 'fox') FROM '{video}'")


# 5. LIMIT, OFFSET and nothing at all are what DuckDB says


@pytest.mark.parametrize("sql", [
    "SELECT sq(x) FROM range(9) t(x) LIMIT 0", "SELECT sq(x) FROM range(9) t(x) LIMIT 3",
    "SELECT x FROM range(99) t(x) WHERE sq(x) > 50 LIMIT 3",
    "SELECT x FROM range(99) t(x) WHERE sq(x) > 50 ORDER BY x DESC LIMIT 3",
    "SELECT x FROM range(99) t(x) WHERE sq(x) > 50 ORDER BY x LIMIT 3 OFFSET 4",
    "SELECT x FROM range(9) t(x) WHERE sq(x) > 50 LIMIT 3 OFFSET 7",
    "SELECT x FROM range(9) t(x) WHERE sq(x) > 50 OFFSET 100",
    "SELECT x FROM range(9) t(x) WHERE sq(x) > 5000 LIMIT 3",
    "SELECT x FROM range(99) t(x) ORDER BY sq(x) DESC LIMIT 3",
    "SELECT x FROM range(99) t(x) ORDER BY sq(x) DESC LIMIT 2 OFFSET 97",
    "SELECT count(*) FROM (SELECT x FROM range(99) t(x) WHERE sq(x) > 9 LIMIT 7)",
    "SELECT sum(x) FROM (SELECT x FROM range(99) t(x) WHERE sq(x) > 9 ORDER BY x LIMIT 7)",
    "SELECT count(*) FROM (SELECT sq(x) FROM range(99) t(x) LIMIT 0)",
    "SELECT count(sq(x)), sum(sq(x)), max(sq(x)), list(sq(x)) FROM range(0) t(x)",
    "SELECT count(*), bool_and(big(x)) FROM range(9) t(x) WHERE sq(x) > 1000",
    "SELECT x % 2, count(*) FROM range(9) t(x) WHERE sq(x) > 1000 GROUP BY 1",
    "SELECT x FROM range(99) t(x) WHERE sq(x) > 50 ORDER BY x LIMIT 10%",
    "SELECT x FROM range(9) t(x) WHERE sq(x) > 9 ORDER BY x LIMIT (SELECT sq(1) + 1)",
    "SELECT DISTINCT sq(x) % 4 AS f FROM range(99) t(x) ORDER BY f LIMIT 1",
    "SELECT max(x) OVER () FROM range(9) t(x) WHERE sq(x) < 20 LIMIT 1",
    "(SELECT x FROM range(9) t(x) WHERE sq(x) > 9 ORDER BY x LIMIT 2) "
    "UNION ALL (SELECT x FROM range(9) t(x) WHERE sq(x) > 20 ORDER BY x LIMIT 1) ORDER BY x",
    "FROM range(9) t(x) WHERE sq(x) > 9 ORDER BY x DESC LIMIT 1",
])
def test_limits(s: Asking, sql: str) -> None:
    assert s.rows(sql) == reference().sql(sql).fetchall()


def test_limit_stops_within_a_batch_of_what_it_needs() -> None:
    with Asking(batch_size=4) as s:
        assert s.rows("SELECT x FROM range(1000) t(x) WHERE sq(x) > 50 LIMIT 3") == [
            (8,), (9,), (10,)]
        assert len(s.asked("sq")) <= 16
        assert s.rows("SELECT sq(x) FROM range(1000) t(x) LIMIT 0") == [] and s.calls == 0
        s.rows("SELECT sq(x) FROM range(1000) t(x) LIMIT 3")
        assert sorted(s.asked("sq")) == [0, 1, 2]
        s.rows("SELECT sq(x) FROM range(1000) t(x) ORDER BY x DESC LIMIT 2 OFFSET 1")
        assert {997, 998} <= set(s.asked("sq")) <= {997, 998, 999}
        s.rows("SELECT x FROM range(1000) t(x) ORDER BY sq(x) LIMIT 2")
        assert s.calls == 1000


@pytest.mark.parametrize("sql", [
    "SELECT x FROM rows WHERE big(y) LIMIT 5", "SELECT x, sq(y) FROM rows LIMIT 3",
    "SELECT x FROM rows WHERE big(y) AND x % 10 = 3 LIMIT 5 OFFSET 3",
    "SELECT x FROM rows WHERE big(n) LIMIT 3", "SELECT x FROM rows WHERE big(n) IS NULL LIMIT 3",
    "SELECT count(*) FROM (SELECT x FROM rows WHERE big(y) LIMIT 4500)",
])
def test_limit_takes_the_first_rows_as_duckdb_does(s: Asking, sql: str) -> None:
    plain = reference()
    make = """CREATE TABLE rows AS SELECT x, (x * 7919) % 101 AS y,
              CASE WHEN x % 13 > 0 THEN x % 5 END AS n FROM range(5000) t(x)"""
    plain.execute(make)
    s.run(make)
    assert s.rows(sql) == plain.sql(sql).fetchall()


# 6. The cache


def double(values: list[int]) -> list[int]:
    return [2 * value for value in values]


def halve(values: list[int]) -> list[int]:
    return [value // 2 for value in values]


def cat_or_not(pictures: list[Any]) -> list[Any]:
    return [[CAT] if number_of(p) % 2 == 0 else [] for p in pictures]


def counts(result: mlsql.Result) -> tuple[int, int]:
    return result.stats.calls, result.stats.cached


NUMBERS = {"task": "predict", "input": "BIGINT", "output": "BIGINT"}
TRIPLE = "SELECT m(x) FROM range(10) t(x)"


def test_a_second_run_calls_no_model_and_gives_the_same_rows(video: Path) -> None:
    sql = f"""SELECT frame_id, SCORE(frame, 'cat', model => 'eye') FROM '{video}'
              WHERE CONTAINS(frame, 'dog', model => 'eye') ORDER BY 1"""
    with Asking(cache=True) as s:
        first = s.run(sql)
        second = s.run(sql)
        assert s.calls == 0 and counts(first) == (10, 0) and counts(second) == (0, 10)
        assert second.stats.frames_decoded == 0
        s.run("SET cache = off")
        off = s.run(sql)
        assert counts(off) == (10, 0)
        assert first.fetchall() == second.fetchall() == off.fetchall() == [
            (0, 0.9), (3, 0.0), (6, 0.9), (9, 0.0)]


def test_an_overlapping_query_asks_only_for_what_is_new(video: Path) -> None:
    with Asking(cache=True) as s:
        s.run(f"SELECT DETECT(frame, model => 'eye') FROM '{video}' WHERE frame_id < 6")
        assert counts(s.run(f"""SELECT frame_id FROM '{video}' WHERE frame_id > 3
                                AND CONTAINS(frame, 'bird', model => 'eye')""")) == (4, 2)
        assert sorted(number_of(p) for p in s.asked("eye")) == [6, 7, 8, 9]


def test_the_cache_serves_another_session() -> None:
    for expected in ((10, 0), (0, 10)):
        with mlsql.connect() as con:
            con.register_model(double, name="m", **NUMBERS)
            result = con.execute(TRIPLE)
            assert counts(result) == expected
            assert result.fetchall() == [(2 * x,) for x in range(10)]


SCRIPT = """
import sys, mlsql

def thrice(values):
    return [3 * value for value in values]

with mlsql.connect(config={"cache_dir": sys.argv[1]}) as con:
    con.register_model(thrice, name="m", task="predict", input="BIGINT", output="BIGINT")
    result = con.execute("SELECT sum(m(x)) FROM range(10) t(x)")
    print(result.fetchall(), result.stats.calls, result.stats.cached)
"""


def test_the_cache_serves_another_process(tmp_path: Path, root: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    found = [subprocess.run([sys.executable, str(tmp_path / "script.py"), str(tmp_path / "cache")],
                            capture_output=True, text=True, check=True, timeout=120,
                            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}).stdout
             for _ in range(2)]
    assert found == ["[(135,)] 10 0\n", "[(135,)] 0 10\n"]


@pytest.mark.parametrize("other", [
    {"version": "2"}, {"target": halve}, {"input": "INTEGER"}, {"output": "DOUBLE"},
])
def test_another_model_under_the_same_name_has_answers_of_its_own(other: dict[str, Any]) -> None:
    target = other.pop("target", double)
    with mlsql.connect() as con:
        con.register_model(double, name="m", **NUMBERS)
        con.execute(TRIPLE)
        con.register_model(target, name="m", **{**NUMBERS, **other})
        result = con.execute(TRIPLE)
        assert counts(result) == (10, 0)
        assert result.fetchall() == [(x,) for x in target(list(range(10)))]


def test_other_labels_are_another_model(video: Path) -> None:
    with mlsql.connect() as con:
        sql = f"SELECT count(*) FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'm')"
        for labels, expected in ((["cat"], (10, 0)), (["cat", "dog"], (10, 0)), (["cat"], (0, 10))):
            con.register_model(cat_or_not, name="m", task="detect", labels=labels)
            assert counts(con.execute(sql)) == expected


def test_the_cache_tells_files_apart_by_what_is_in_them(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    sql = "SELECT list(frame_id ORDER BY frame_id) FROM '{}' WHERE CONTAINS(frame, 'cat', " \
          "model => 'm')"
    with mlsql.connect() as con:
        con.register_model(cat_or_not, name="m", task="detect", labels=["cat"])
        first = con.execute(sql.format(video))
        assert counts(first) == (10, 0) and first.fetchall() == [([0, 2, 4, 6, 8],)]
        copy = tmp_path / "copy.mp4"
        shutil.copyfile(video, copy)
        assert counts(con.execute(sql.format(copy))) == (0, 10)
        ten_greys(video, gop=1)
        changed = con.execute(sql.format(video))
        assert counts(changed) == (10, 0)
        backwards = tmp_path / "other.mp4"
        from tests.media_samples import write_video

        write_video(backwards, [grey(20 * (9 - i)) for i in range(10)])
        backwards.replace(video)
        last = con.execute(sql.format(video))
        assert counts(last) == (10, 0) and last.fetchall() == [([1, 3, 5, 7, 9],)]


def test_a_picture_edited_in_place_and_the_same_bytes_in_a_table(tmp_path: Path) -> None:
    folder = make_pictures(tmp_path / "pictures")
    sql = f"SELECT list(path.parse_filename() ORDER BY path) FROM '{folder}/*.png' " \
          "WHERE CONTAINS(image, 'cat', model => 'm')"
    with mlsql.connect() as con:
        con.register_model(cat_or_not, name="m", task="detect", labels=["cat"])
        assert con.execute(sql).fetchall() == [(["0.png", "2.png"],)]
        (folder / "1.png").write_bytes((folder / "0.png").read_bytes())
        again = con.execute(sql)
        assert again.fetchall() == [(["0.png", "1.png", "2.png"],)]
        assert again.stats.calls == 0  # the bytes are those of 0.png
        blobs = con.execute(f"""
            SELECT count(*) FROM (SELECT content FROM read_blob('{folder}/*.png'))
            WHERE CONTAINS(IMAGE(content), 'cat', model => 'm')""")
        assert blobs.fetchall() == [(3,)] and blobs.stats.calls == 0


# 7. Labels


@pytest.mark.parametrize("label", ["''", "'   '", "'\t'"])
@pytest.mark.parametrize("call", [
    "CONTAINS(frame, {}, model => 'eye')", "SCORE(frame, {}, model => 'eye')",
    "COUNT_OBJECTS(frame, {}, model => 'eye')", "CONTAINS_ANY(frame, ['cat', {}], model => 'eye')",
    "DETECT(frame, [{}], model => 'eye')", "CLASSIFY(frame, ['cat', {}], model => 'kind')",
    "CONTAINS(frame, {})",
])
def test_an_empty_label_is_an_error(s: Asking, video: Path, call: str, label: str) -> None:
    with pytest.raises(ProgrammingError, match="a label must not be empty"):
        s.rows(f"SELECT {call.format(label)} FROM '{video}'")
    assert s.calls == 0


@pytest.mark.parametrize(("call", "near"), [
    ("CONTAINS(frame, 'cta', model => 'eye')", "'cat'"),
    ("SCORE(frame, 'brid', model => 'eye')", "'bird'"),
    ("COUNT_OBJECTS(frame, 'dgo', model => 'eye')", "'dog'"),
    ("CONTAINS_ALL(frame, ['cat', 'dgo'], model => 'eye')", "'dog'"),
    ("DETECT(frame, ['birdd'], model => 'eye')", "'bird'"),
    ("CLASSIFY(frame, ['fishh', 'cat'], model => 'kind')", "'fish'"),
    ("CONTAINS(frame, 'bycicle')", "'bicycle'"),
])
def test_an_unknown_label_says_what_was_meant(
    s: Asking, video: Path, call: str, near: str
) -> None:
    with pytest.raises(UnknownName, match=f"unknown label .*did you mean .*{near}"):
        s.rows(f"SELECT {call} FROM '{video}'")
    assert s.calls == 0


def test_an_unknown_label_is_an_error_even_where_no_row_is(s: Asking, video: Path) -> None:
    with pytest.raises(UnknownName, match="'cta'"):
        s.rows(f"SELECT 1 FROM '{video}' WHERE false AND CONTAINS(frame, 'cta', model => 'eye')")


# 8. Names


def test_names_whatever_their_case(s: Asking, video: Path) -> None:
    for sql in ("select contains(FRAME, 'CAT', MODEL => 'EYE') from '{}' where Frame_Id = 0",
                "Select Contains(v.frame, ' Cats ', Model := 'Eye') From '{}' As V Where frame_id=0"
                ):
        assert s.rows(sql.format(video)) == [(True,)]
    assert s.rows("SELECT Sq(X), \"sq\"(x) FROM range(2) T(x) ORDER BY t.X") == [(0, 0), (1, 1)]


@pytest.mark.parametrize("sql", [
    "SELECT x, sq(x) FROM range(2) t(x)", "SELECT SQ(x), Sq(x) FROM range(2) t(x)",
    'SELECT x AS "A b", sq(x) AS Ümlaut, sq(x) AS "ÄÖ" FROM range(2) t(x)',
    "SELECT count(*), COUNT(*), sum(sq(x)) FROM range(2) t(x)",
    "SELECT x, x, sq(x) AS x FROM range(2) t(x)",
    "SELECT sq(x) AS A, sq(x) AS a FROM range(2) t(x)",
    "SELECT * FROM (SELECT sq(x) FROM range(2) t(x))", "SELECT t.*, sq(x) FROM range(2) t(x)",
    "SELECT sq(x) + 1, -sq(x), NOT big(x), sq(x)::VARCHAR FROM range(2) t(x)",
    "SELECT CASE WHEN big(x) THEN 1 END, sq(x) IN (1, 2) FROM range(2) t(x)",
    "SELECT * EXCLUDE (x), sq(x) FROM (SELECT 1 AS x, 2 AS Y)",
    "SELECT COLUMNS(*), sq(x) FROM (SELECT 1 AS x, 2 AS Y)",
    "SELECT * REPLACE (sq(x) AS x) FROM (SELECT 2 AS x, 2 AS Y)",
    "SELECT sum(x), sq(max(x)) FROM range(2) t(x)", "SELECT 1 + 1, sq(1)", "SELECT up('a')",
    "SELECT row_number() OVER (ORDER BY sq(x)) FROM range(2) t(x)",
    "SELECT (SELECT sq(1)), EXISTS (SELECT sq(1)) FROM range(2) t(x)",
])
def test_headings_are_duckdbs(s: Asking, sql: str) -> None:
    import duckdb

    plain = duckdb.connect()
    for name, kind, result, function in (
        ("sq", "BIGINT", "BIGINT", lambda x: x), ("big", "BIGINT", "BOOLEAN", lambda x: True),
        ("up", "VARCHAR", "VARCHAR", lambda x: x),
    ):
        plain.create_function(name, function, [duckdb.sqltype(kind)], duckdb.sqltype(result))
    cursor = plain.execute(sql)
    assert s.run(sql).columns == [column[0] for column in cursor.description]


# 9. Constants, and models that answer anew each time


def test_a_constant_is_asked_once(s: Asking) -> None:
    s.rows("SELECT sq(3), up('a') FROM range(100) WHERE sq(3) = 9")
    assert s.asked("sq") == [3] and s.asked("up") == ["a"]


def test_one_that_is_not_deterministic_is_asked_each_time_and_never_cached() -> None:
    with Asking(cache=True) as s:
        turn = iter(range(1000))
        s.add("dice", lambda x: next(turn), deterministic=False)
        first = s.rows("SELECT dice(1) FROM range(4)")
        assert s.run("SELECT dice(x) FROM range(5) t(x)").stats.cached == 0
        assert len(s.asked("dice")) == 5
        assert s.rows("SELECT dice(1) FROM range(4)") != first
        assert s.run("SELECT dice(x) FROM range(5) t(x)").stats.cached == 0
        s.rows("SELECT dice(1) FROM range(4)")
        assert len(s.asked("dice")) == 1  # once for each distinct input of a statement


@pytest.mark.parametrize("sql", [
    "SELECT f, r * r FROM (SELECT r, sq(r) AS f FROM (SELECT (random() * 1e6)::BIGINT AS r "
    "FROM range(50)))",
    "WITH a AS (SELECT (random() * 1e6)::BIGINT AS r FROM range(50)) SELECT sq(r), r * r FROM a",
    "SELECT sq(r), r * r FROM (SELECT (random() * 1e6)::BIGINT AS r FROM range(50)) "
    "WHERE sq(r) >= 0 ORDER BY sq(r)",
    "SELECT sq((random() * 1e6)::BIGINT) >= 0, true FROM range(50)",
    "SELECT true, true FROM range(50) WHERE sq((random() * 1e6)::BIGINT) >= 0",
])
def test_inputs_that_are_random(s: Asking, sql: str) -> None:
    rows = s.rows(sql)
    assert len(rows) == 50 and all(a == b for a, b in rows)
    assert len(s.asked("sq")) <= 50


# 16. One poisoned row costs that row


def bad_three(x: int) -> int:
    if x == 3:
        raise ValueError("three is bad\nand this is the second line")
    return 10 * x


@pytest.fixture
def poisoned(s: Asking) -> Asking:
    s.add("bad", bad_three)
    return s


def test_raise_is_the_default(poisoned: Asking) -> None:
    with pytest.raises(ModelOutputError, match=r"'bad'.*ValueError: three is bad") as caught:
        poisoned.rows("SELECT bad(x) FROM range(6) t(x)")
    cause: BaseException | None = caught.value
    while cause is not None and not isinstance(cause, ValueError):
        cause = cause.__cause__
    assert isinstance(cause, ValueError) and cause.args[0].startswith("three is bad")


def test_null(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'null'")
    result = poisoned.run("SELECT x, bad(x) FROM range(6) t(x)")
    assert result.fetchall() == [(0, 0), (1, 10), (2, 20), (3, None), (4, 40), (5, 50)]
    (error,) = result.errors
    assert error.model == "bad" and "three is bad" in error.message
    assert isinstance(error.cause, ValueError) and result.stats.errors == 1
    assert poisoned.rows("SELECT model, cause FROM query_errors()") == [
        ("bad", "ValueError: three is bad\nand this is the second line")]


def test_skip_loses_the_row(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'skip'")
    for sql, rows in (
        ("SELECT x, bad(x) FROM range(6) t(x)", [(0, 0), (1, 10), (2, 20), (4, 40), (5, 50)]),
        ("SELECT x FROM range(6) t(x) WHERE bad(x) >= 0", [(0,), (1,), (2,), (4,), (5,)]),
        ("SELECT x FROM range(6) t(x) WHERE bad(x) IS NULL", []),
        ("SELECT count(*) FROM range(6) t(x) WHERE bad(x) IS NULL OR bad(x) >= 0", [(5,)]),
        ("SELECT x FROM range(6) t(x) WHERE NOT bad(x) > 20 ORDER BY x", [(0,), (1,), (2,)]),
    ):
        assert sorted(poisoned.rows(sql)) == rows, sql
        assert len(poisoned.rows("FROM query_errors()")) == 1


def test_skip_and_limit(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'skip'")
    for sql, rows in (
        ("SELECT x, bad(x) FROM range(10) t(x) ORDER BY x LIMIT 4",
         [(0, 0), (1, 10), (2, 20), (4, 40)]),
        ("SELECT x, bad(x) FROM range(10) t(x) LIMIT 4", [(0, 0), (1, 10), (2, 20), (4, 40)]),
        ("SELECT x FROM range(10) t(x) WHERE bad(x) > 0 ORDER BY x LIMIT 3", [(1,), (2,), (4,)]),
        ("SELECT x FROM range(10) t(x) ORDER BY bad(x) LIMIT 2 OFFSET 2", [(2,), (4,)]),
        ("SELECT count(*) FROM (SELECT bad(x) FROM range(5) t(x) LIMIT 5)", [(4,)]),
    ):
        assert poisoned.rows(sql) == rows, sql


def test_skip_wherever_the_call_stands(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'skip'")
    for sql, rows in (
        ("SELECT bad(x), bad(x + 1) FROM range(6) t(x)", [(0, 10), (10, 20), (40, 50), (50, 60)]),
        ("SELECT count(*), count(bad(x)) FROM range(6) t(x)", [(5, 5)]),
        ("SELECT x FROM range(6) t(x) ORDER BY bad(x) DESC LIMIT 2", [(5,), (4,)]),
        ("SELECT x FROM range(5) t(x) WHERE x IN (SELECT bad(y) // 10 FROM range(5) u(y)) "
         "ORDER BY 1", [(0,), (1,), (2,), (4,)]),
        ("SELECT bad(x) FROM range(4) t(x) UNION ALL SELECT bad(3)", [(0,), (10,), (20,)]),
        ("SELECT x FROM range(6) t(x) WHERE x < 3 OR bad(x) > 45", [(0,), (1,), (2,), (5,)]),
    ):
        assert poisoned.rows(sql) == rows, sql


def test_one_bad_input_is_one_error(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'null'")
    for sql in (
        "SELECT bad(x) + bad(x), bad(x) FROM range(6) t(x), range(3)",
        "SELECT x FROM range(5) t(x) WHERE EXISTS (SELECT 1 FROM range(5) u(y) WHERE bad(y) = x)",
        "SELECT bad(x) FROM range(5) t(x) UNION ALL SELECT bad(x) FROM range(5) t(x)",
        "SELECT bad(x), bad(x + 1) FROM range(6) t(x)", "SELECT [bad(v) FOR v IN [1, 3, 3]]",
        "SELECT x FROM range(6) t(x) WHERE bad(x) > 10 ORDER BY bad(x) LIMIT 1",
    ):
        result = poisoned.run(sql)
        assert len(result.errors) == result.stats.errors == 1, sql


def test_null_in_conditions_is_unknown(poisoned: Asking) -> None:
    poisoned.run("SET on_error = 'null'")
    for sql, rows in (
        ("SELECT x FROM range(6) t(x) WHERE bad(x) >= 0", [(0,), (1,), (2,), (4,), (5,)]),
        ("SELECT x FROM range(6) t(x) WHERE bad(x) IS NULL", [(3,)]),
        ("SELECT x FROM range(6) t(x) WHERE NOT bad(x) > 10", [(0,), (1,)]),
        ("SELECT count(bad(x)), sum(bad(x)) FROM range(6) t(x)", [(5, 120)]),
        ("SELECT x FROM range(6) t(x) ORDER BY bad(x) DESC NULLS FIRST LIMIT 2", [(3,), (5,)]),
    ):
        assert poisoned.rows(sql) == rows, sql


def test_where_the_bad_row_does_not_matter_nothing_is_raised(poisoned: Asking) -> None:
    assert poisoned.rows("SELECT bad(x) FROM range(6) t(x) WHERE x <> 3") == [
        (0,), (10,), (20,), (40,), (50,)]
    assert poisoned.value("SELECT max(CASE WHEN x > 3 THEN bad(x) END) FROM range(6) t(x)") == 50


def test_a_frame_that_poisons_its_batch(s: Asking, video: Path) -> None:
    def see_but(picture: Any) -> Any:
        if number_of(picture) == 3:
            raise RuntimeError("no")
        return see(picture)

    s.add("shy", see_but, task="detect", labels=["cat", "dog"])
    sql = f"SELECT frame_id, SCORE(frame, 'cat', model => 'shy') FROM '{video}' WHERE frame_id < 6"
    with pytest.raises(ModelOutputError) as caught:
        s.rows(sql)
    for part in ("shy", "v.mp4", "3", "RuntimeError: no"):
        assert part in str(caught.value)
    s.run("SET on_error = 'null'")
    assert s.rows(sql) == [(0, 0.9), (1, 0.0), (2, 0.9), (3, None), (4, 0.9), (5, 0.0)]
    assert s.rows("SELECT path, frame_id, ts, model, cause FROM query_errors()") == [
        (str(video), 3, 0.3, "shy", "RuntimeError: no")]


def test_a_picture_that_cannot_be_read(s: Asking, tmp_path: Path) -> None:
    folder = make_pictures(tmp_path / "p")
    whole = (folder / "1.png").read_bytes()
    (folder / "1.png").write_bytes(whole[:50] + b"?" * 20 + whole[70:])
    sql = f"""SELECT p, SCORE(IMAGE('{folder}/' || p), 'cat', model => 'eye')
              FROM (VALUES ('0.png'), ('1.png'), ('2.png'), ('none.png')) t(p)"""
    with pytest.raises(MediaError, match="png"):
        s.rows(sql)
    s.run("SET on_error = 'null'")
    assert s.rows(sql) == [("0.png", 0.9), ("1.png", None), ("2.png", 0.9), ("none.png", None)]
    assert [Path(p).name for (p,) in s.rows("SELECT path FROM query_errors() ORDER BY 1")] == [
        "1.png", "none.png"]


def test_an_error_is_not_cached() -> None:
    with Asking(cache=True, on_error="null") as s:
        healed: list[bool] = []

        def sometimes(x: int) -> int:
            if not healed and x == 1:
                raise OSError("out of order")
            return x

        s.add("sometimes", sometimes, version="1")
        assert s.rows("SELECT sometimes(x) FROM range(3) t(x)") == [(0,), (None,), (2,)]
        healed.append(True)
        assert s.rows("SELECT sometimes(x) FROM range(3) t(x)") == [(0,), (1,), (2,)]


def test_too_many_errors_end_the_statement(s: Asking) -> None:
    def odd(x: int) -> int:
        if x % 2:
            raise ValueError(f"odd {x}")
        return x

    s.add("even_only", odd)
    s.run("SET on_error = 'null'; SET max_error_ratio = 0.2")
    with pytest.raises(mlsql.OperationalError, match=r"max_error_ratio = 0\.2"):
        s.rows("SELECT even_only(x) FROM range(400) t(x)")
    s.run("RESET max_error_ratio")
    assert s.value("SELECT count(even_only(x)) FROM range(400) t(x)") == 200


# 17. One line of cause


def test_the_message_is_one_line_and_holds_no_trace(poisoned: Asking) -> None:
    with pytest.raises(ModelOutputError) as caught:
        poisoned.rows("SELECT bad(x) FROM range(6) t(x)")
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message and "mlsql_" not in message


# 21. A failed DDL leaves nothing


@pytest.mark.parametrize("sql", [
    "CREATE TABLE made AS SELECT bad(x) FROM range(6) t(x)",
    "CREATE VIEW made AS SELECT CONTAINS(frame, 'cta', model => 'eye') FROM '{video}'",
    "CREATE VIEW made AS SELECT nope FROM '{video}'",
    "CREATE TABLE made AS SELECT * FROM 'there-is-no.mp4'",
    "CREATE TABLE made (a BIGINT DEFAULT sq(2))", "CREATE TABLE made (a BIGINT CHECK (sq(a) > 1))",
    "CREATE TABLE made (a BIGINT, b BIGINT GENERATED ALWAYS AS (sq(a)))",
    "CREATE MACRO made(a) AS sq(a) +", "CREATE MACRO made(a AS sq(a)",
    "CREATE MACRO made(a) AS sq(a), (a, b) AS sq(b)",
])
def test_a_failed_create_leaves_nothing(poisoned: Asking, video: Path, sql: str) -> None:
    with pytest.raises(mlsql.Error):
        poisoned.rows(sql.format(video=video))
    assert poisoned.rows("SELECT table_name FROM duckdb_tables()") == []
    assert poisoned.rows("SELECT view_name FROM duckdb_views() WHERE NOT internal") == []
    assert poisoned.value(
        "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'made'") == 0


def test_a_failed_insert_or_update_changes_nothing(poisoned: Asking) -> None:
    poisoned.run("CREATE TABLE t AS SELECT x FROM range(6) t(x)")
    for sql in ("INSERT INTO t SELECT bad(x) FROM t", "UPDATE t SET x = bad(x)",
                "DELETE FROM t WHERE bad(x) > 0"):
        with pytest.raises(ModelOutputError):
            poisoned.run(sql)
        assert poisoned.rows("SELECT x FROM t ORDER BY x") == [(x,) for x in range(6)]


# 22. A failure ends with its statement


def test_a_failed_query_does_not_poison_the_next(poisoned: Asking, video: Path) -> None:
    for _ in range(3):
        with pytest.raises(ModelOutputError):
            poisoned.rows("SELECT bad(x), sq(x) FROM range(6) t(x)")
        assert poisoned.rows("SELECT sq(x) FROM range(3) t(x)") == [(0,), (1,), (4,)]
        with pytest.raises(UnknownName):
            poisoned.rows(f"SELECT SCORE(frame, 'cta', model => 'eye') FROM '{video}'")
        with pytest.raises(ProgrammingError):
            poisoned.rows("SELECT sq(nope) FROM range(3) t(x)")
        assert poisoned.value(
            f"SELECT count(*) FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'eye')") == 5
    assert poisoned.rows("SHOW TABLES") == []


def test_a_failed_query_does_not_spoil_what_is_cached() -> None:
    with Asking(cache=True, batch_size=2) as s:
        s.add("bad", bad_three)
        with pytest.raises(ModelOutputError):
            s.rows("SELECT bad(x) FROM range(6) t(x)")
        assert s.rows("SELECT bad(x) FROM range(3) t(x)") == [(0,), (10,), (20,)]
        assert s.asked("bad") == []  # the batches before the bad one are kept


# 23. Limits


def test_max_model_calls(s: Asking) -> None:
    s.run("SET max_model_calls = 10")
    assert s.value("SELECT sum(sq(x)) FROM range(10) t(x)") == 285
    with pytest.raises(CallLimit, match="max_model_calls = 10"):
        s.rows("SELECT sum(sq(x)) FROM range(11) t(x)")
    assert len(s.asked("sq")) <= 10
    with pytest.raises(CallLimit):
        s.rows("SELECT sum(sq(x)), bool_or(big(x)) FROM range(6) t(x)")
    assert s.calls <= 10
    s.run("RESET max_model_calls")
    assert s.value("SELECT count(sq(x)) FROM range(11) t(x)") == 11


@pytest.mark.parametrize(("sql", "rows", "seen", "of"), [
    ("SELECT sq(x) FROM range(11) t(x)", [(x * x,) for x in range(10)], 10, 11),
    ("SELECT x, sq(x) FROM range(99) t(x) WHERE big(x)", [(x, x * x) for x in range(3, 6)], 6, 99),
    ("SELECT x FROM range(99) t(x) WHERE big(x) ORDER BY x DESC LIMIT 20",
     [(x,) for x in range(98, 88, -1)], 10, 99),
    ("SELECT x FROM range(99) t(x) WHERE NOT big(x % 50) ORDER BY sq(x % 3) DESC, x",
     [(2,), (1,), (0,)], 7, 99),
    ("SELECT count(*) OVER () FROM range(99) t(x) WHERE big(x)", None, 0, 0),
    ("SELECT x FROM range(99) t(x) ORDER BY sq(x) DESC LIMIT 2", None, 0, 0),
    ("SELECT DISTINCT sq(x % 40) FROM range(99) t(x) ORDER BY 1 DESC",
     [(x * x,) for x in reversed(range(10))], 10, 40),
    ("SELECT DISTINCT x % 3 AS y FROM range(99) t(x) WHERE NOT big(x) LIMIT 5",
     [(0,), (1,), (2,)], 10, 99),
    ("SELECT DISTINCT ON (x % 7) x FROM range(99) t(x) WHERE big(x)", None, 0, 0),
    ("SELECT x FROM range(99) t(x) WHERE big(x) UNION ALL SELECT 1", None, 0, 0),
    ("CREATE TABLE of_all AS SELECT sq(x) FROM range(99) t(x)", None, 0, 0),
])
def test_a_limit_ends_with_the_rows_that_are_certain(
    s: Asking, sql: str, rows: list[tuple[int, ...]] | None, seen: int, of: int
) -> None:
    s.run("SET max_model_calls = 10")
    if rows is None:
        with pytest.raises(CallLimit):
            s.rows(sql)
    else:
        result = s.run(sql)
        assert result.fetchall() == rows
        assert result.warnings == (
            "not the whole answer: max_model_calls = 10 reached; what was computed is kept; "
            f"the rows are those of the first {seen} of {of} candidates",)
        assert s.session.cursor().execute(sql).messages == [(mlsql.Warning, *result.warnings)]
    assert s.calls <= 20  # the cursor asked again


def test_statement_timeout_ends_with_the_rows_that_are_certain(s: Asking) -> None:
    s.add("slow", lambda x: time.sleep(0.05) or x, batch_size=2)
    s.run("SET statement_timeout = 0.5")
    for sql, step in (("SELECT slow(x) FROM range(999) t(x)", 1),
                      ("SELECT x FROM range(999) t(x) WHERE slow(x) % 2 = 0 LIMIT 90", 2)):
        started = time.monotonic()
        result = s.run(sql)
        rows = result.fetchall()
        assert time.monotonic() - started < 1.5
        assert rows and rows == [(x,) for x in range(0, step * len(rows), step)]
        (said,) = result.warnings
        assert "not the whole answer: statement_timeout of 0.5 s" in said
    s.run("RESET statement_timeout")
    assert s.value("SELECT count(slow(x)) FROM range(3) t(x)") == 3


def test_max_model_calls_keeps_what_was_computed_and_counts_no_cached_answers() -> None:
    with Asking(cache=True, max_model_calls=10) as s:
        for _ in range(5):
            try:
                assert s.value("SELECT count(sq(x)) FROM range(42) t(x)") == 42
                break
            except CallLimit:
                assert 0 < len(s.asked("sq")) <= 10
        else:
            pytest.fail("five times ten calls were not enough for 42 inputs")


def test_statement_timeout_stops_models_and_sql_alike(s: Asking) -> None:
    s.add("slow", lambda x: time.sleep(0.05) or x, batch_size=2)
    s.run("SET statement_timeout = 0.4")
    for sql in ("SELECT sum(slow(x)) FROM range(2000) t(x)",
                "SELECT sum(slow(x + 1)) FROM range(1) t(x), range(100000000000) u(y) "
                "WHERE y % 7 = x"):
        started = time.monotonic()
        with pytest.raises(TimeLimit, match=r"statement_timeout of 0\.4 s"):
            s.rows(sql)
        assert time.monotonic() - started < 1.4
    assert s.value("SELECT sum(slow(x)) FROM range(3) t(x)") == 3


def test_statement_timeout_binds_plain_sql(s: Asking) -> None:
    s.run("SET statement_timeout = 0.3")
    started = time.monotonic()
    with pytest.raises(TimeLimit):
        s.rows("SELECT count(*) FROM range(20000000000) t(x) WHERE x % 7 = 3")
    assert time.monotonic() - started < 1.3
    assert s.rows("SELECT 1") == [(1,)]


# 25. What DuckDB may not read, neither may we


def test_no_external_access(tmp_path: Path) -> None:
    video, folder = make_video(tmp_path), make_pictures(tmp_path / "p")
    with Asking(enable_external_access=False) as s:
        s.run("CREATE TABLE t AS SELECT ? AS path", [str(folder / "0.png")])
        for sql in (f"FROM '{video}'", f"FROM read_video('{video}')", f"FROM '{folder}/*.png'",
                    f"SELECT count(*) FROM read_images('{folder}')",
                    "SELECT SCORE(IMAGE(path), 'cat', model => 'eye') FROM t",
                    f"SELECT eye('{folder}/0.png')"):
            with pytest.raises(mlsql.Error, match=r"(?i)disabled|permission|not allowed|access"):
                s.rows(sql)
            assert s.calls == 0
        blob = (folder / "0.png").read_bytes()
        assert s.value("SELECT SCORE(IMAGE(?), 'cat', model => 'eye')", [blob]) == 0.9


def test_allowed_directories(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    inside, outside = make_video(tmp_path / "in"), make_video(tmp_path / "out")
    (tmp_path / "in" / "link.mp4").symlink_to(outside)
    allowed = [f"{tmp_path}/in/"]
    with Asking(enable_external_access=False, allowed_directories=allowed) as s:
        assert s.value(f"SELECT count(*) FROM '{inside}' "
                       "WHERE CONTAINS(frame, 'cat', model => 'eye')") == 5
        for path in (outside, f"{tmp_path}/in/../out/v.mp4", f"{tmp_path}/in/link.mp4"):
            for sql in (f"SELECT count(*) FROM '{path}'", f"SELECT eye('{path}')"):
                with pytest.raises(mlsql.Error):
                    s.rows(sql)
        picture = f"struct_pack(uri := '{outside}', frame := 0::BIGINT, data := NULL::BLOB)"
        with pytest.raises(mlsql.Error):
            s.rows(f"SELECT eye({picture})")
        assert s.calls == 0


@pytest.mark.parametrize("name", ["http://127.0.0.1:9/a.mp4", "https://127.0.0.1:9/a.mp4",
                                  "s3://bucket/a.mp4", "rtsp://127.0.0.1:9/a.mp4"])
def test_no_url_is_fetched(s: Asking, name: str) -> None:
    for sql in (f"SELECT count(*) FROM '{name}'", f"SELECT eye('{name}')"):
        started = time.monotonic()
        with pytest.raises(mlsql.Error):
            s.rows(sql)
        assert time.monotonic() - started < 5


# 27. Values are bound, never pasted


ATTACKS = ["a' OR 1=1", "a'; DROP TABLE t; --", "$1", "?", "%s", '"', "\\", "a\0b", "💥'", "''"]


@pytest.mark.parametrize("text", ATTACKS)
def test_a_bound_text_is_data(s: Asking, video: Path, text: str) -> None:
    s.run("CREATE TABLE t AS SELECT 1 AS x")
    with pytest.raises(UnknownName, match="unknown label"):
        s.rows(f"SELECT CONTAINS(frame, ?, model => 'eye') FROM '{video}'", [text])
    assert s.rows("SELECT up(?), ?, up($1)".replace("up($1)", "up(?)"), [text] * 3) == [
        (text.upper(), text, text.upper())]
    assert s.value("SELECT count(*) FROM t") == 1
