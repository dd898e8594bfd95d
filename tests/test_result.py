"""Results: lazy, memoised, and faithful to SQL's values in every shape they are asked for."""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsql.display import Style, box, cell, printable, text, width
from mlsql.errors import DataError, InterfaceError, NotSupportedError
from mlsql.exec.stats import ModelStats, Stats
from mlsql.foreign import placed
from mlsql.image import Image
from mlsql.result import Outcome, Result
from mlsql.values import _short_float

MEDIA = "{'uri': 'd/trip.mp4', 'frame': 120::BIGINT, 'data': NULL::BLOB}"


@pytest.fixture
def ask() -> Callable[..., Result]:
    """A result of plain SQL, from the kind of rows asked for."""
    con = duckdb.connect()

    def rows(sql: str, kind: str) -> Any:
        if kind == "relation":
            return con.sql(sql)
        if kind == "cursor":
            return con.cursor().execute(sql)
        return con.sql(sql).to_arrow_table() if kind == "table" else con.sql(sql).to_arrow_reader()

    return lambda sql, kind="relation": Result(lambda: Outcome(rows(sql, kind)))


KINDS = ("relation", "cursor", "table", "reader")


def test_it_runs_when_asked_and_once() -> None:
    runs = []

    def run() -> Outcome:
        runs.append(1)
        return Outcome(pa.table({"a": [1, 2]}))

    result = Result(run)
    assert not runs
    assert result.columns == ["a"]
    assert result.fetchall() == [(1,), (2,)]
    assert result.arrow().num_rows == len(result.df()) == len(result.pl()) == 2
    assert "2 rows" in repr(result)
    assert len(runs) == 1


def test_a_failed_run_is_tried_again() -> None:
    answers: list[Any] = [DataError("not yet"), Outcome(pa.table({"a": [1]}))]

    def run() -> Outcome:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    result = Result(run)
    with pytest.raises(DataError):
        result.fetchall()
    assert result.fetchall() == [(1,)]


@pytest.mark.parametrize("kind", KINDS)
def test_fetching_moves_on(ask: Callable[..., Result], kind: str) -> None:
    result = ask("SELECT range AS i FROM range(5000)", kind)
    assert result.fetchone() == (0,)
    assert result.fetchmany(2) == [(1,), (2,)]
    assert len(result.fetchall()) == 4997
    assert result.fetchall() == []
    assert result.fetchmany(3) == []
    assert result.fetchone() is None
    assert result.arrow().num_rows == 5000


@pytest.mark.parametrize(("sql", "value"), [
    ("1", 1),
    ("sum(i)::HUGEINT", 3),
    ("1.50::DECIMAL(9,2)", Decimal("1.50")),
    ("'x'", "x"),
    ("'\\x00\\x01'::BLOB", b"\x00\x01"),
    ("true", True),
    ("NULL", None),
    ("DATE '2020-02-29'", date(2020, 2, 29)),
    ("DATE 'infinity'", date.max),
    ("TIME '10:00:00.25'", time(10, 0, 0, 250000)),
    ("TIMESTAMP '2020-01-01 00:00:00.000001'", datetime(2020, 1, 1, 0, 0, 0, 1)),
    ("TIMESTAMP_NS '2020-01-01 00:00:00.123456789'", datetime(2020, 1, 1, 0, 0, 0, 123456)),
    ("TIMESTAMPTZ '2020-01-01 00:00:00+00'", datetime(2020, 1, 1, tzinfo=timezone.utc)),
    ("INTERVAL '1 month 2 days 3 seconds'", timedelta(days=32, seconds=3)),
    ("[1, NULL, 3]", [1, None, 3]),
    ("[1.5, 2.5]::DOUBLE[2]", [1.5, 2.5]),
    ("{'a': 1, 'b': {'c': [1::HUGEINT]}}", {"a": 1, "b": {"c": [1]}}),
    ("MAP {'k': INTERVAL 1 day}", {"k": timedelta(days=1)}),
    ("MAP {[1]: 2}", [([1], 2)]),
    ("'12345678-1234-5678-1234-567812345678'::UUID",
     uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("'10110'::BIT", "10110"),
    ("'a'::ENUM('a', 'b')", "a"),
    (MEDIA, Image("d/trip.mp4", 120)),
    (f"[{MEDIA}, NULL]", [Image("d/trip.mp4", 120), None]),
    (f"{{'best': {MEDIA}}}", {"best": Image("d/trip.mp4", 120)}),
    ("NULL::STRUCT(uri VARCHAR, frame BIGINT, data BLOB)", None),
])
def test_values_come_back_as_python_has_them(
    ask: Callable[..., Result], sql: str, value: Any
) -> None:
    result = ask(f"SELECT {sql} AS v FROM range(3) t(i)" + (" GROUP BY 1" if "sum" not in sql
                                                            else ""))
    found = result.fetchone()
    assert found == (value,)
    assert found is not None and type(found[0]) is type(value)


@pytest.mark.parametrize("number", ["0", "7", "-7", "12345678901234567890123456789012345678901",
                                    "-12345678901234567890123456789012345678901", "-256", "256"])
def test_numbers_of_any_size(ask: Callable[..., Result], number: str) -> None:
    assert ask(f"SELECT '{number}'::BIGNUM").fetchall() == [(int(number),)]


@pytest.mark.parametrize("kind", KINDS)
def test_description(ask: Callable[..., Result], kind: str) -> None:
    result = ask("SELECT 1 AS a, 'x' AS A, [1.5] AS l WHERE false", kind)
    assert result.columns == ["a", "A", "l"]
    assert result.types == ["INTEGER", "VARCHAR", "DECIMAL(2,1)[]"]
    assert result.description == [
        ("a", "INTEGER", None, None, None, None, None),
        ("A", "VARCHAR", None, None, None, None, None),
        ("l", "DECIMAL(2,1)[]", None, None, None, None, None)]
    assert result.fetchall() == []
    assert result.arrow().num_rows == 0
    assert list(result.df().columns) == ["a", "A", "l"]


def test_a_statement_without_rows() -> None:
    result = Result(lambda: Outcome(None))
    assert result.description is None
    assert (result.columns, result.types, result.fetchall()) == ([], [], [])
    assert result.fetchone() is None
    assert repr(result) == "OK"
    assert result.arrow().num_columns == 0
    assert list(result.printed()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_takes_rows_that_nobody_kept(ask: Callable[..., Result], kind: str) -> None:
    result = ask("SELECT range AS i FROM range(10)", kind)
    assert result.to_arrow_reader().read_all().num_rows == 10
    if kind == "reader":  # what streams is handed over; what lies in memory stays
        with pytest.raises(InterfaceError, match="run the statement again"):
            result.fetchall()
    else:
        assert len(result.fetchall()) == 10
    kept = ask("SELECT range AS i FROM range(10)", kind)
    kept.arrow()
    assert kept.to_arrow_reader().read_all().num_rows == kept.arrow().num_rows == 10


@pytest.mark.parametrize("kind", KINDS)
def test_printed_rows_are_what_a_table_shows(ask: Callable[..., Result], kind: str) -> None:
    sql = ("SELECT 0.1::FLOAT AS f, INTERVAL '14 months 1 day' AS v,"
           f" {MEDIA} AS m, [0.1::FLOAT] AS l")
    row = (0.1, "1 year 2 months 1 day", Image("d/trip.mp4", 120), [0.1])
    assert list(ask(sql, kind).printed()) == [row]
    assert list(ask(sql, kind).printed(keep=True)) == [row]


def test_errors_of_duckdb_are_ours(ask: Callable[..., Result]) -> None:
    for use in (Result.arrow, lambda r: list(r.printed()), Result.fetchall, Result.show):
        result = ask("SELECT (CASE WHEN i = 3 THEN 'x' ELSE '1' END)::INT FROM range(9) t(i)")
        with pytest.raises(DataError, match="Could not convert") as caught:
            use(result)
        assert isinstance(caught.value.__cause__, duckdb.Error)


def test_an_error_gets_its_place_back() -> None:
    con = duckdb.connect()
    for sql in ("SELECT nope", "SELECT lenght(1)", "FROM gone"):
        with pytest.raises(duckdb.Error) as caught:
            con.sql(sql)
        assert "LINE 1: " + sql in str(placed(caught.value, con, sql))
    with pytest.raises(duckdb.ConversionException) as caught:
        con.sql("SELECT 'x'::INT").fetchall()
    assert placed(caught.value, con, "SELECT 'x'::INT") is caught.value  # it was run: not again
    with pytest.raises(duckdb.Error) as caught:
        con.sql("SELECT $1 + nope", params=[1])
    assert "LINE 1: " in str(placed(caught.value, con, "SELECT $1 + nope", [1]))


def test_frames(ask: Callable[..., Result]) -> None:
    sql = f"SELECT sum(i) AS s, {MEDIA} AS m, DATE '2020-01-01' AS d FROM range(3) t(i)"
    frame = ask(sql).df()
    assert frame["s"].dtype == "int64"
    assert frame["m"][0] == Image("d/trip.mp4", 120)
    assert frame["d"].dt.year[0] == 2020
    polars = ask(sql).pl()
    assert polars["s"].to_list() == [3]
    assert polars["m"].to_list() == [{"uri": "d/trip.mp4", "frame": 120, "data": None}]


def test_hugeint_beyond_bigint_becomes_double(ask: Callable[..., Result]) -> None:
    assert ask("SELECT 2::HUGEINT ** 70 :: INT AS x, (1e25)::HUGEINT AS y").df()["y"][0] == 1e25


def test_a_missing_package_is_named(
    ask: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NotSupportedError, match="pip install polars"):
        ask("SELECT 1").pl()


def test_others_take_it_as_an_arrow_stream(ask: Callable[..., Result]) -> None:
    import polars

    result = ask("SELECT range AS i FROM range(3)")
    assert pa.table(result)["i"].to_pylist() == [0, 1, 2]
    assert polars.DataFrame(result)["i"].to_list() == [0, 1, 2]
    assert duckdb.sql("SELECT sum(i) FROM result").fetchall() == [(3,)]


def test_totals_are_the_sums_of_the_models() -> None:
    stats = Stats((ModelStats("a", 250, 10, 5, batches=16, frames_decoded=250, seconds_infer=2.0),
                   ModelStats("b", 4, 0, 0, batches=1, seconds_infer=0.5, errors=1)), 0.1, 3.0)
    assert (stats.calls, stats.cached, stats.saved, stats.batches) == (254, 10, 5, 17)
    assert (stats.frames_decoded, stats.errors, stats.seconds_infer) == (250, 1, 2.5)
    assert Result(lambda: Outcome(None, stats)).stats is stats


def test_a_table_shows_first_and_last(ask: Callable[..., Result]) -> None:
    shown = repr(ask("SELECT range AS i FROM range(1000)"))
    lines = shown.splitlines()
    assert lines[-1] == "(1,000 rows, 20 shown)"
    assert [line.strip("│ ") for line in lines[4:-2]] == [
        *map(str, range(10)), "·", *map(str, range(990, 1000))]


@pytest.mark.parametrize("rows", range(6))
@pytest.mark.parametrize("most", [0, 1, 2, 3, 5])
def test_no_row_is_lost_or_shown_twice(
    ask: Callable[..., Result], capsys: pytest.CaptureFixture[str], rows: int, most: int
) -> None:
    ask(f"SELECT range AS i FROM range({rows})").show(max_rows=most)
    shown = [int(word) for line in capsys.readouterr().out.splitlines()[4:-2]
             if (word := line.strip("│ ")) != "·"]
    head = most - most // 2
    wanted = list(range(rows))
    assert shown == (wanted if rows <= most else wanted[:head] + wanted[rows - most // 2:])


def test_show_prints_what_repr_says(
    ask: Callable[..., Result], capsys: pytest.CaptureFixture[str]
) -> None:
    result = ask(f"SELECT 1 AS n, NULL::DATE AS nothing, 'NULL' AS word, {MEDIA} AS frame")
    result.show()
    assert capsys.readouterr().out == repr(result) + "\n" == """\
┌─────────┬─────────┬─────────┬──────────────────────┐
│ n       │ nothing │ word    │ frame                │
│ integer │ date    │ varchar │ image                │
├─────────┼─────────┼─────────┼──────────────────────┤
│       1 │ NULL    │ 'NULL'  │ <image trip.mp4#120> │
└─────────┴─────────┴─────────┴──────────────────────┘
(1 row)
"""


@given(st.lists(st.lists(st.text() | st.none(), min_size=3, max_size=3), max_size=12),
       st.integers(10, 80), st.booleans())
def test_a_table_keeps_its_shape(rows: list[list[str | None]], most: int, ascii: bool) -> None:
    types = [duckdb.sqltype("VARCHAR")] * 3
    drawn = box(["a", "b\n", "c"], types, rows, Style(max_width=most, max_rows=5, ascii=ascii))
    *lines, footer = drawn.split("\n")
    assert len({width(line) for line in lines}) == 1
    assert width(lines[0]) <= max(most, 10)
    assert footer.startswith(f"({len(rows)} row")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for line in lines for c in line)


def test_control_sequences_are_written_out() -> None:
    assert printable("a\x1b[31mb\n\u202ec") == "a\\x1b[31mb\\n\\u202ec"
    assert printable("日本 é \U0001f468\u200d\U0001f469") == "日本 é \U0001f468\u200d\U0001f469"
    assert cell("NULL") == "'NULL'"
    assert cell(None) == "NULL"


def test_text_is_as_duckdb_writes_it() -> None:
    con = duckdb.connect()
    for sql in ("1", "1.50", "true", "0.1::DOUBLE", "1e20::DOUBLE", "[1, NULL]", "'x'",
                "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 10:00:00.5'", "TIME '10:00:00'",
                "'\\x00a\\x5C'::BLOB",
                "{'a': [1], 'b': NULL}", "'inf'::DOUBLE", "'nan'::DOUBLE"):
        value, wanted = con.execute(f"SELECT {sql}, ({sql})::VARCHAR").fetchall()[0]
        assert text(value) == wanted, sql


@given(st.floats(width=32))
def test_floats_are_as_short_as_they_can_be(value: float) -> None:
    short = _short_float(value)
    assert short == value or value != value or pa.scalar(short, pa.float32()).as_py() == value


def test_an_image_is_a_handle_until_looked_at(bikes: Path, tmp_path: Path) -> None:
    image = Image(str(bikes), 120)
    assert repr(image) == "<image bikes.mp4#120>"
    pixels = image.numpy()
    assert pixels.shape == (272, 640, 3)
    assert pixels.dtype == "uint8"
    assert repr(image) == "<image 640x272 bikes.mp4#120>"
    assert image.numpy() is pixels
    assert image.pil().size == (640, 272)
    assert image._repr_png_().startswith(b"\x89PNG")
    path = image.save(tmp_path / "frame.png")
    again = Image(data=path.read_bytes())
    assert (again.numpy() == pixels).all()
    assert again != image
    assert Image(str(path)).numpy().tolist() == pixels.tolist()


def test_images_compare_by_what_they_name() -> None:
    assert Image("a.mp4", 1) == Image("a.mp4", 1) != Image("a.mp4", 2)
    assert len({Image("a.mp4", 1), Image("a.mp4", 1)}) == 1
    assert repr(Image(data=b"x" * 1200)) == "<image 1,200 bytes>"
    with pytest.raises(InterfaceError):
        Image()


def test_ctrl_c_ends_what_duckdb_does() -> None:
    con = duckdb.connect()
    sql = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE a.range + b.range = 7"
    for rows in (lambda: con.sql(sql), lambda: con.execute(sql)):
        result = Result(lambda: Outcome(rows()), interrupt=con.interrupt)  # noqa: B023
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        started = monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            result.arrow()
        assert monotonic() - started < 3
    assert con.sql("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("kind", ["relation", "table"])  # those that can be read again
def test_names_that_are_alike(ask: Callable[..., Result], kind: str) -> None:
    inner = ask("SELECT 1 AS a, 2 AS b", kind)

    def result() -> Result:
        return Result(lambda: Outcome(inner.outcome().rows, names=("a", "a")))

    assert result().columns == ["a", "a"]
    assert result().fetchall() == [(1, 2)]
    assert result().arrow().column_names == ["a", "a"]
    assert result().to_arrow_reader().read_all().column_names == ["a", "a"]
    if kind == "relation":
        assert "│ a       │ a       │" in repr(result())


def test_it_waits_for_no_lock_of_its_own() -> None:
    result = Result(lambda: Outcome(pa.table({"a": [1]})), interrupt=lambda: None)
    assert result.fetchall() == [(1,)]
    again = Result(lambda: Outcome(pa.table({"a": [1]})), interrupt=lambda: None)
    assert again.to_arrow_reader().read_all().num_rows == 1
