"""SQL's values as Python's and back, for every type that DuckDB has."""

from __future__ import annotations

import enum
import math
import uuid
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import mlsql
from mlsql.binding import adapted, bindable
from mlsql.errors import ProgrammingError
from mlsql.image import Image

UTC = timezone.utc
EAST = timezone(timedelta(hours=2))
TYPES = {
    "boolean": bool, "tinyint": int, "hugeint": int, "bignum": int, "float": float,
    "decimal": Decimal, "varchar": str, "json": str, "blob": bytes, "uuid": uuid.UUID,
    "interval": timedelta, "bit": str, "list": list, "array": list, "struct": dict,
    "tuple": tuple, "map": dict, "enum": str, "time": time, "geometry": bytes,
}


@pytest.fixture(scope="module")
def con() -> Iterator[mlsql.Session]:
    with mlsql.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        yield session


def value(con: mlsql.Session, expression: str) -> Any:
    ((found,),) = con.execute(f"SELECT {expression}").fetchall()
    return found


def test_a_row_of_every_type(con: mlsql.Session) -> None:
    """What DuckDB's own client gives, but for numbers it gives as texts and arrays as tuples."""
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    names = plain.sql("FROM test_all_types()").columns
    assert len(names) > 50
    for name in names:
        sql = f'SELECT "{name}" FROM test_all_types()'
        result = con.execute(sql)
        theirs = [row[0] for row in plain.execute(sql).fetchall()]
        ours = [row[0] for row in result.fetchall()]
        assert repr(as_ours(theirs, name)) == repr(ours), name
        wanted = TYPES.get(result.kinds[0].id)
        assert wanted is None or all(type(v) is wanted for v in ours if v is not None) or \
            "24:00" in str(ours), name


def as_ours(theirs: Any, name: str) -> Any:
    if name == "bignum":
        return [None if v is None else int(v) for v in theirs]
    return arrays_as_lists(theirs) if "fixed" in name else theirs


def arrays_as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: arrays_as_lists(v) for k, v in value.items()}
    return [arrays_as_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(("sql", "wanted"), [
    ("TIMESTAMP 'infinity'", datetime.max), ("TIMESTAMP '-infinity'", datetime.min),
    ("DATE 'infinity'", date.max), ("DATE '-infinity'", date.min),
    ("[DATE 'infinity']", [date.max]), ("{'a': TIMESTAMP '-infinity'}", {"a": datetime.min}),
    ("DATE '290000-01-01'", "290000-01-01"), ("TIME '24:00:00'", "24:00:00"),
    ("INTERVAL '1000000000 days'", "1000000000 days"),
    ("TIMETZ '10:00:00+02'", time(10, tzinfo=EAST)),
    ("TIMESTAMPTZ '2020-01-01 00:00:00+02'", datetime(2019, 12, 31, 22, tzinfo=UTC)),
    ("row(1, 'x')", (1, "x")), ("[row(1, {'a': row(2)})]", [(1, {"a": (2,)})]),
    ("MAP {[1]: 'x'}", [([1], "x")]), ("MAP {row(1): 2}", {(1,): 2}),
    ("union_value(a := 1)", 1), ("'x'::VARIANT", "x"), ("340282366920938463463374607431768211455"
                                                        "::UHUGEINT", 2**128 - 1),
])
def test_values_that_are_hard(con: mlsql.Session, sql: str, wanted: Any) -> None:
    found = value(con, sql)
    assert found == wanted and type(found) is type(wanted)
    assert len(con.sql(f"SELECT {sql} AS v").arrow()) == 1


class Colour(enum.Enum):
    RED = "red"


GIVEN = [
    (1, 1), (2**63, 2**63), (-2**127, -2**127), (2**128 - 1, 2**128 - 1), (10**60, 10**60),
    (-10**60, -10**60), (1.5, 1.5), ("x' OR 1=1", "x' OR 1=1"), (b"\x00a", b"\x00a"),
    (bytearray(b"x"), b"x"), (memoryview(b"x"), b"x"), (True, True), (None, None),
    (Decimal("1.50"), Decimal("1.50")), (date(2020, 1, 1), date(2020, 1, 1)),
    (datetime(2020, 1, 1, 1, 2, 3, 4), datetime(2020, 1, 1, 1, 2, 3, 4)),
    (datetime(2020, 1, 1, tzinfo=EAST), datetime(2019, 12, 31, 22, tzinfo=UTC)),
    (time(1, 2, 3), time(1, 2, 3)), (time(1, 2, tzinfo=EAST), time(1, 2, tzinfo=EAST)),
    (timedelta(days=40, seconds=3, microseconds=7), timedelta(40, 3, 7)),
    (timedelta(days=-1), timedelta(days=-1)), ([1, None], [1, None]), ([], []),
    ({"a": 1, "b": [1]}, {"a": 1, "b": [1]}), ({1: "x", 2: "y"}, {1: "x", 2: "y"}),
    ((1, 2), [1, 2]), (uuid.UUID(int=5), uuid.UUID(int=5)), (np.int32(4), 4),
    (np.float64(1.5), 1.5), (np.bool_(True), True), (np.array([1, 2]), [1, 2]),
    (Colour.RED, "red"), (Path("/x"), "/x"), ({3}, [3]),
    (Image("a.mp4", 3), Image("a.mp4", 3)),
]


@pytest.mark.parametrize(("given", "wanted"), GIVEN, ids=lambda v: repr(v).split(" at 0x")[0])
@pytest.mark.parametrize("sql", ["SELECT ?", "SELECT ? FROM models() LIMIT 1"])
def test_parameters_come_back(con: mlsql.Session, sql: str, given: Any, wanted: Any) -> None:
    """Bound by DuckDB, and as a literal in a statement of ours."""
    ((found,),) = con.execute(sql, [given]).fetchall()
    if isinstance(given, Image) and isinstance(found, dict):
        found = Image(**found)
    assert found == wanted and isinstance(found, type(wanted))


def test_columns_of_nested_types_take_what_they_give(con: mlsql.Session) -> None:
    con.execute("CREATE TEMP TABLE n(m MAP(VARCHAR, INT), k MAP(INT, VARCHAR), u UNION(n INT, "
                "s VARCHAR), t TUPLE(INT, VARCHAR), b BIT, g BIGNUM, e ENUM('a', 'b'), "
                "j JSON, a INT[2], i STRUCT(uri VARCHAR, frame BIGINT, data BLOB))")
    row = ({"k": 1}, {1: "x"}, "s", (1, "x"), "0101", 10**40, "b", '{"a": 1}', [1, 2],
           Image("a.mp4", 7))
    con.execute(f"INSERT INTO n VALUES ({', '.join('?' * len(row))})", row)
    assert con.execute("FROM n").fetchall() == [row]


def test_what_has_no_type_is_said(con: mlsql.Session) -> None:
    for wrong in (object(), lambda: 1):
        with pytest.raises(mlsql.Error, match=type(wrong).__name__):
            con.execute("SELECT ?", [wrong])
        with pytest.raises(mlsql.Error, match=type(wrong).__name__):
            con.execute("SELECT ? FROM models()", [wrong])
    for parameters in (5, "x", b"x"):
        with pytest.raises(ProgrammingError, match="sequence or a mapping"):
            con.execute("SELECT ?", parameters)  # type: ignore[arg-type]


def test_not_a_number(con: mlsql.Session) -> None:
    for sql in ("SELECT ?", "SELECT ? FROM models() LIMIT 1"):
        ((found,),) = con.execute(sql, [math.nan]).fetchall()
        assert math.isnan(found)


def test_names_and_places_of_parameters(con: mlsql.Session) -> None:
    assert con.execute("SELECT $2, $1", [1, 2]).fetchall() == [(2, 1)]
    assert con.execute("SELECT $b, $a", {"a": 1, "b": 2}).fetchall() == [(2, 1)]
    assert adapted(None) is None and adapted({"a": (1, 2)}) == {"a": [1, 2]}
    assert bindable((1, "x")) == {"element1": 1, "element2": "x"}
