"""SQLAlchemy, found by its entry point: reflection, tables both ways, the ORM, pandas, a model."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Optional

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import mlsql

SHOP = """
    CREATE SCHEMA s;
    CREATE TABLE p(id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE, e ENUM('a', 'b'),
                   CHECK (id > 0));
    CREATE TABLE c(a INT DEFAULT 4, b INT, p INT REFERENCES p(id),
                   g INT GENERATED ALWAYS AS (a + 1), l INT[][], st STRUCT(a INT),
                   d DECIMAL(9, 2), tz TIMESTAMPTZ, h HUGEINT, j JSON, u UUID,
                   i INTERVAL, r REAL, PRIMARY KEY (a, b));
    CREATE UNIQUE INDEX ix ON c(p, b);
    CREATE INDEX ix2 ON c((a + b));
    COMMENT ON TABLE p IS 'people';
    CREATE VIEW v AS SELECT name FROM p;
    CREATE VIEW s.w AS SELECT 1 AS x;
    CREATE SEQUENCE numbers"""


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    found = sa.create_engine("mlsql://?threads=2&cache=false")
    yield found
    found.dispose()


@pytest.fixture
def shop(engine: sa.Engine) -> sa.Engine:
    with engine.begin() as con:
        for statement in SHOP.split(";"):
            con.exec_driver_sql(statement)
    return engine


def test_urls(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    engine = sa.create_engine(f"mlsql:///{path}?memory_limit=100MB")
    with engine.begin() as con:
        con.execute(sa.text("CREATE TABLE t AS SELECT 7 AS a"))
        assert con.execute(sa.text("SELECT current_setting('memory_limit')")).scalar() == "95.3 MiB"
        assert con.dialect.name == "mlsql"
    engine.dispose()
    assert path.exists()
    with sa.create_engine(f"mlsql:///{path}?read_only=true").connect() as con:
        assert con.execute(sa.text("FROM t")).all() == [(7,)]
        with pytest.raises(sa.exc.DatabaseError, match="read-only"):
            con.execute(sa.text("CREATE TABLE u(a INT)"))
    with pytest.raises(sa.exc.ProgrammingError, match="on_error takes"):
        sa.create_engine("mlsql://?on_error=perhaps").connect()


def test_databases_in_memory_are_shared_by_an_engine_alone(engine: sa.Engine) -> None:
    with engine.begin() as con:
        con.execute(sa.text("CREATE TABLE t AS SELECT 1 AS a"))
    seen: list[Any] = []

    def look() -> None:
        with engine.connect() as con:
            seen.append(con.execute(sa.text("FROM t")).scalar())

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 1, 1]
    assert not sa.inspect(sa.create_engine("mlsql://")).has_table("t")


def test_names(shop: sa.Engine) -> None:
    found = sa.inspect(shop)
    assert found.default_schema_name == "main" and found.get_schema_names() == ["main", "s"]
    assert (found.get_table_names(), found.get_view_names()) == (["c", "p"], ["v"])
    assert found.get_view_names("s") == ["w"] and found.get_sequence_names() == ["numbers"]
    assert found.has_table("p") and found.has_table("v") and found.has_table("w", "s")
    assert not found.has_table("w") and not found.has_table("q")
    assert found.get_view_definition("v").startswith("CREATE VIEW v AS SELECT")
    assert found.get_table_comment("p") == {"text": "people"}
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("nope")
    with shop.begin() as con:
        con.exec_driver_sql("ATTACH ':memory:' AS other")
        con.exec_driver_sql("CREATE TABLE other.main.z(a INT)")
        con.exec_driver_sql("CREATE TEMP TABLE tt(a INT)")
        inside = sa.inspect(con)
        assert inside.get_table_names("other.main") == ["z"]
        assert "other.main" in inside.get_schema_names()
        assert inside.get_temp_table_names() == ["tt"] and inside.has_table("tt")


def test_columns_and_keys(shop: sa.Engine) -> None:
    found = sa.inspect(shop)
    columns = {c["name"]: c for c in found.get_columns("c")}
    assert {name: str(c["type"].compile(shop.dialect)) for name, c in columns.items()} == {
        "a": "INTEGER", "b": "INTEGER", "p": "INTEGER", "g": "INTEGER", "l": "INTEGER[][]",
        "st": "STRUCT(a INTEGER)", "d": "DECIMAL(9, 2)", "tz": "TIMESTAMPTZ", "h": "HUGEINT",
        "j": "JSON", "u": "UUID", "i": "INTERVAL", "r": "REAL"}
    assert (columns["a"]["default"], columns["a"]["nullable"]) == ("4", False)
    assert columns["p"]["nullable"] and "a + 1" in columns["g"]["computed"]["sqltext"]
    enum = found.get_columns("p")[2]["type"]
    assert isinstance(enum, sa.Enum) and enum.enums == ["a", "b"]
    assert found.get_pk_constraint("c")["constrained_columns"] == ["a", "b"]
    (key,) = found.get_foreign_keys("c")
    assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (
        ["p"], "p", ["id"])
    assert [u["column_names"] for u in found.get_unique_constraints("p")] == [["name"]]
    assert [u["sqltext"] for u in found.get_check_constraints("p")] == ["(id > 0)"]
    assert [(i["name"], i["unique"], i["column_names"]) for i in found.get_indexes("c")] == [
        ("ix", True, ["p", "b"]), ("ix2", False, [None])]


def test_reflected_tables_can_be_made_again(shop: sa.Engine) -> None:
    tables = sa.MetaData()
    tables.reflect(shop, views=True)
    assert sorted(tables.tables) == ["c", "p", "v"]
    other = sa.create_engine("mlsql://")
    again = sa.MetaData()
    for name in ("p", "c"):
        tables.tables[name].to_metadata(again)
    again.tables["c"].indexes.clear()
    again.create_all(other)
    assert sa.inspect(other).get_foreign_keys("c") == sa.inspect(shop).get_foreign_keys("c")


def test_views_over_media_are_seen(engine: sa.Engine, bikes: Path) -> None:
    query = f"SELECT frame_id, CONTAINS(frame, 'person') AS someone FROM '{bikes}'"
    with engine.begin() as con:
        con.exec_driver_sql(f"CREATE VIEW people AS {query}")
    found = sa.inspect(engine)
    assert [(c["name"], str(c["type"])) for c in found.get_columns("people")] == [
        ("frame_id", "BIGINT"), ("someone", "BOOLEAN")]
    assert found.get_view_definition("people").startswith("SELECT frame_id, CONTAINS(")


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[Optional[Decimal]] = mapped_column(sa.Numeric(10, 2))  # noqa: UP045
    at: Mapped[datetime.datetime]
    uid: Mapped[uuid.UUID]
    data: Mapped[Any] = mapped_column(sa.JSON)
    span: Mapped[datetime.timedelta]
    tags: Mapped[Any] = mapped_column(sa.ARRAY(sa.String))
    raw: Mapped[bytes]
    ok: Mapped[bool]


def test_the_orm(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as s:
        s.add_all([User(name=f"n{k}", price=Decimal("1.50"), at=datetime.datetime(2020, 1, 1),
                        uid=uuid.UUID(int=k), data={"a/b": [1, {"c": "z"}]}, tags=["x", "y"],
                        span=datetime.timedelta(days=2), raw=b"\x00", ok=True) for k in range(3)])
        s.commit()
        user = s.scalars(sa.select(User).where(User.name.regexp_match("1$"))).one()
        assert (user.id, user.price, user.uid, user.raw, user.ok, user.tags) == (
            2, Decimal("1.50"), uuid.UUID(int=1), b"\x00", True, ["x", "y"])
        assert (user.data, user.span) == ({"a/b": [1, {"c": "z"}]}, datetime.timedelta(days=2))
        row = s.execute(sa.select(
            User.data[("a/b", "1", "c")].as_string(), User.data["a/b"][0].as_integer(),
            User.id // 2, User.id / 2).order_by(User.id.desc()).limit(1).offset(0)).one()
        assert tuple(row) == ("z", 1, 1, 1.5)
        user.name = "other"
        s.commit()
        s.delete(user)
        s.rollback()
        assert s.scalar(sa.select(sa.func.count()).select_from(User)) == 3
        assert s.scalars(sa.select(User.name).with_for_update().order_by(User.id)).all() == [
            "n0", "other", "n2"]
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == sa.inspect(engine).get_sequence_names() == []


def test_inserts_and_updates(engine: sa.Engine) -> None:
    table = sa.Table("k", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True),
                     sa.Column("order", sa.String(9)), sa.Column("at", sa.Float))
    table.create(engine)
    with engine.begin() as con:
        many = con.execute(table.insert(), [{"id": n, "order": "a"} for n in range(1, 2500)])
        assert many.rowcount == 2499
        statement = insert(table).values(id=1, order="z")
        con.execute(statement.on_conflict_do_update(
            index_elements=["id"], set_={"order": statement.excluded.order}))
        assert con.execute(sa.select(table.c.order).where(table.c.id == 1)).scalar() == "z"
        assert con.execute(table.update().where(table.c.id < 5).values(at=1.5)).rowcount == 4
        given = con.execute(table.insert().returning(table.c.id, table.c.order),
                            [{"id": 9001, "order": "x"}, {"id": 9002, "order": "y"}])
        assert sorted(given.all()) == [(9001, "x"), (9002, "y")]


def test_transactions_and_autocommit(engine: sa.Engine) -> None:
    with engine.connect() as con:
        con.execute(sa.text("CREATE TABLE gone(a INT)"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as con:
        con.execute(sa.text("CREATE TABLE kept(a INT)"))
    assert sa.inspect(engine).get_table_names() == ["kept"]
    with engine.connect() as con:
        assert con.get_isolation_level() == "REPEATABLE READ"


def test_errors(engine: sa.Engine) -> None:
    with engine.connect() as con:
        with pytest.raises(sa.exc.ProgrammingError) as caught:
            con.execute(sa.text("SELECT nope"))
        assert isinstance(caught.value.orig, mlsql.ProgrammingError)
        with pytest.raises(sa.exc.DataError):
            con.execute(sa.text("SELECT 'x'::INT"))
        assert con.execute(sa.text("SELECT 1")).scalar() == 1


def test_pandas(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"a": [1, 2], "t": pd.to_datetime(["2020-01-01", "2020-01-02"]),
                          "s": ["x", None], "f": [1.1, 2.5], "o": [True, False]})
    frame.to_sql("df", engine, index=False, if_exists="replace")
    frame.to_sql("df", engine, index=False, if_exists="append")
    back = pd.read_sql(sa.text("SELECT * FROM df WHERE a >= :x ORDER BY a"), engine,
                       params={"x": 2})
    assert back["a"].tolist() == [2, 2] and back["f"].tolist() == [2.5, 2.5]
    assert back["o"].tolist() == [False, False] and back["t"][0] == pd.Timestamp("2020-01-02")
    whole = pd.read_sql_table("df", engine)
    assert whole["f"].tolist() == [1.1, 2.5, 1.1, 2.5] and whole["t"].dtype.kind == "M"
    mine = pd.DataFrame({"z": [5]})
    assert pd.read_sql(sa.text("SELECT z FROM mine"), engine)["z"].tolist() == mine["z"].tolist()


def test_a_model_through_an_engine(engine: sa.Engine, bikes: Path) -> None:
    found = pd.read_sql(
        sa.text("SELECT frame_id, COUNT_OBJECTS(frame, :label) AS n, frame FROM read_video(:path) "
                "WHERE frame_id = :f"), engine,
        params={"label": "person", "path": str(bikes), "f": 120})
    assert found[["frame_id", "n"]].values.tolist() == [[120, 2]]
    assert isinstance(found["frame"][0], mlsql.Image)
