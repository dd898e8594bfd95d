"""TPC-H's 22 queries: as they are, and with a model that answers with its own input in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mlsql.session import Session

# A number from 0 to m - 1 that looks random, for row i and column c.
_PICK = "CREATE MACRO pick(i, c, m) AS (hash(format('{} {}', i, c)) % m)::INTEGER"

_WORDS = """
CREATE MACRO word(i, c, list) AS list[1 + pick(i, c, len(list))];
CREATE MACRO money(i, c, least, most) AS
    (least + pick(i, c, ((most - least) * 100)::BIGINT) / 100)::DECIMAL(15, 2);
CREATE MACRO day(i, c, span) AS DATE '1992-01-01' + pick(i, c, span);
"""

_TABLES = """
CREATE TABLE region AS SELECT i::INTEGER AS r_regionkey,
    ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'][i + 1] AS r_name,
    'calm' AS r_comment FROM range(5) r(i);
CREATE TABLE nation AS SELECT i::INTEGER AS n_nationkey, n.name AS n_name, (i % 5)::INTEGER AS
    n_regionkey, 'far' AS n_comment FROM (SELECT unnest(range(10)) AS i, unnest(['KENYA',
    'BRAZIL', 'CHINA', 'FRANCE', 'SAUDI ARABIA', 'ETHIOPIA', 'CANADA', 'INDIA', 'GERMANY', 'IRAN'])
    AS name) n;
CREATE TABLE supplier AS SELECT i::INTEGER AS s_suppkey, format('Supplier#{:09}', i) AS s_name,
    format('street {}', pick(i, 'sa', 99)) AS s_address, pick(i, 'sn', 10) AS s_nationkey,
    format('{}-555', 10 + pick(i, 'sp', 25)) AS s_phone, money(i, 'sb', -900, 9999) AS s_acctbal,
    word(i, 'sc', ['fine', 'Customer of Complaints', 'quick', 'slow', 'even']) AS s_comment
    FROM range(1, 41) r(i);
CREATE TABLE customer AS SELECT i::INTEGER AS c_custkey, format('Customer#{:09}', i) AS c_name,
    format('lane {}', pick(i, 'ca', 99)) AS c_address, pick(i, 'cn', 10) AS c_nationkey,
    format('{}-777', 10 + pick(i, 'cp', 25)) AS c_phone, money(i, 'cb', -900, 9999) AS c_acctbal,
    word(i, 'cm', ['BUILDING', 'AUTOMOBILE', 'MACHINERY', 'HOUSEHOLD', 'FURNITURE']) AS
    c_mktsegment, 'deposits' AS c_comment FROM range(1, 301) r(i);
CREATE TABLE part AS SELECT i::INTEGER AS p_partkey,
    word(i, 'p1', ['green', 'red', 'blue', 'ivory', 'lime']) || ' ' ||
    word(i, 'p2', ['green', 'navy', 'pink', 'plum', 'rose']) AS p_name,
    format('Manufacturer#{}', 1 + pick(i, 'pm', 5)) AS p_mfgr,
    format('Brand#{}{}', 1 + pick(i, 'b1', 5), 1 + pick(i, 'b2', 5)) AS p_brand,
    word(i, 't1', ['STANDARD', 'SMALL', 'MEDIUM', 'LARGE', 'ECONOMY', 'PROMO']) || ' ' ||
    word(i, 't2', ['ANODIZED', 'BURNISHED', 'PLATED', 'POLISHED', 'BRUSHED']) || ' ' ||
    word(i, 't3', ['TIN', 'NICKEL', 'BRASS', 'STEEL', 'COPPER']) AS p_type,
    1 + pick(i, 'ps', 50) AS p_size, word(i, 'c1', ['SM', 'MED', 'LG', 'WRAP']) || ' ' ||
    word(i, 'c2', ['CASE', 'BOX', 'PACK', 'PKG', 'BAG']) AS p_container,
    money(i, 'pr', 900, 2000) AS p_retailprice, 'sly' AS p_comment FROM range(1, 401) r(i);
CREATE TABLE partsupp AS SELECT (1 + i // 4)::INTEGER AS ps_partkey,
    (1 + (i // 4 + (i % 4) * 11) % 40)::INTEGER AS ps_suppkey,
    1 + pick(i, 'aq', 9999) AS ps_availqty, money(i, 'sc', 1, 1000) AS ps_supplycost,
    'even' AS ps_comment FROM range(1600) r(i);
CREATE TABLE orders AS SELECT i::INTEGER AS o_orderkey, 1 + pick(i, 'oc', 200) AS o_custkey,
    word(i, 'os', ['O', 'F', 'P', 'F', 'O']) AS o_orderstatus,
    money(i, 'ot', 900, 90000) AS o_totalprice, day(i, 'od', 2400) AS o_orderdate,
    word(i, 'op', ['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW']) AS
    o_orderpriority, format('Clerk#{}', pick(i, 'ok', 9)) AS o_clerk, 0 AS o_shippriority,
    word(i, 'om', ['regular', 'special blithe requests', 'bold', 'special packages']) AS o_comment
    FROM range(1, 3001) r(i);
CREATE TABLE lineitem AS SELECT o_orderkey AS l_orderkey, ps_partkey AS l_partkey,
    ps_suppkey AS l_suppkey, n::INTEGER AS l_linenumber,
    (1 + pick(k, 'lq', 50))::DECIMAL(15, 2) AS l_quantity, money(k, 'le', 900, 9000) AS
    l_extendedprice, (pick(k, 'ld', 11) / 100)::DECIMAL(15, 2) AS l_discount,
    (pick(k, 'lt', 9) / 100)::DECIMAL(15, 2) AS l_tax, word(k, 'lr', ['R', 'A', 'N']) AS
    l_returnflag, word(k, 'ls', ['O', 'F']) AS l_linestatus, o_orderdate + 1 + pick(k, 's1', 120)
    AS l_shipdate, o_orderdate + 30 + pick(k, 's2', 60) AS l_commitdate,
    o_orderdate + 2 + pick(k, 's3', 150) AS l_receiptdate,
    word(k, 'li', ['DELIVER IN PERSON', 'COLLECT COD', 'NONE']) AS l_shipinstruct,
    word(k, 'lm', ['AIR', 'AIR REG', 'MAIL', 'SHIP', 'TRUCK', 'RAIL']) AS l_shipmode,
    'brave' AS l_comment
    FROM (SELECT *, o_orderkey * 8 + n AS k FROM orders, range(1, 8) r(n)
          WHERE n <= 1 + pick(o_orderkey, 'n', 7)), partsupp
    WHERE ps_partkey = 1 + pick(k, 'lp', 400) AND ps_suppkey = 1 + (ps_partkey - 1 +
        pick(k, 'lx', 4) * 11) % 40;
"""

QUERIES = {
    name.strip(): text.strip() for name, text in re.findall(
        r"^-- (Q\d+)\n(.*?);$", (Path(__file__).parent / "tpch.sql").read_text(), re.M | re.S)
}


def fill(execute: Any) -> None:
    """The eight tables: DuckDB's own generator's where it is installed, else of the same shape."""
    try:
        execute("LOAD tpch")
        execute("CALL dbgen(sf = 0.01)")
    except Exception:  # the extension is no part of DuckDB's package
        for text in (_PICK, _WORDS, _TABLES):
            execute(text)


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    fill(connection.execute)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def asked() -> list[int]:
    return []


@pytest.fixture(scope="module")
def session(asked: list[int]) -> Iterator[Session]:
    def same(values: list[int]) -> list[int]:
        asked.extend(values)
        return values

    with Session(config={"cache": False}) as session:
        fill(session.connection.execute)
        session.register_model(same, task="predict", input="INTEGER", output="INTEGER")
        yield session


def test_the_queries_are_all_there(plain: duckdb.DuckDBPyConnection) -> None:
    assert list(QUERIES) == [f"Q{i}" for i in range(1, 23)]
    empty = [name for name, text in QUERIES.items()
             if not any(any(row) for row in plain.execute(text).fetchall())]
    assert not empty, "these prove little: they find nothing"


@pytest.mark.parametrize("name", QUERIES)
def test_as_duckdb_answers(
    name: str, plain: duckdb.DuckDBPyConnection, session: Session
) -> None:
    expected = plain.execute(QUERIES[name])
    found = session.execute(QUERIES[name])
    assert found.columns == [d[0] for d in expected.description]
    assert found.types == [str(d[1]) for d in expected.description]
    assert found.fetchall() == expected.fetchall()
    assert found.stats.calls == 0


@pytest.mark.parametrize("recorded", [False, True], ids=["peeled", "recorded"])
@pytest.mark.parametrize("name", QUERIES)
def test_with_a_model_in_the_conditions(
    name: str, recorded: bool, plain: duckdb.DuckDBPyConnection, session: Session,
    asked: list[int],
) -> None:
    """Keys on the left of a comparison go through the model."""
    text, count = re.subn(r"\b(\w+\.)?([lopcsn]s?_(order|cust|part|supp|nation|region)key)"
                          r"(?= (=|<>|IN|NOT IN)\s)", r"same(\g<0>)", QUERIES[name])
    if name in ("Q1", "Q6"):
        text, count = re.subn("WHERE ", "WHERE same(l_linenumber) > 0 AND ", text)
    elif count == 0:
        text, count = re.subn("ON c_custkey", "ON same(c_custkey)", text)
    assert count
    asked.clear()
    session._runner.peels = not recorded
    try:
        found = session.execute(text)
        assert found.fetchall() == plain.execute(QUERIES[name]).fetchall()
    finally:
        session._runner.peels = True
    assert len(asked) == len(set(asked)) == found.stats.calls > 0
