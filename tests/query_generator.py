"""Random SQL statements over the reference tables and models, the same for the same seed.

Their answers are determined: LIMIT stands under an order of all columns, windows treat equal rows
alike, sums are of numbers that add up exactly. Some of them DuckDB refuses; those are no cases.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.expression_generator import BOOL, INT, TEXT, TYPES, Column, ExpressionGenerator, Place
from tests.reference import COLUMNS


@dataclass(frozen=True)
class Statement:
    """A statement's text. `ordered`: its ORDER BY decides the place of every row."""

    text: str
    ordered: bool = False


@dataclass(frozen=True)
class Source:
    """A source of FROM: its text with its alias, and its columns under that alias."""

    text: str
    alias: str
    columns: tuple[tuple[str, str], ...]  # bare name, type

    def qualified(self) -> tuple[Column, ...]:
        return tuple((f"{self.alias}.{name}", kind) for name, kind in self.columns)


class QueryGenerator:
    """Makes statements; what one seed gives never changes the next's."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0
        self._ctes: list[Source] = []
        self._make = ExpressionGenerator(self._random, self.query)

    def statement(self) -> Statement:
        """A query to be compared with the reference."""
        if self._chance(0.12):
            return Statement(self._starred())
        types = [self._random.choice(TYPES) for _ in range(self._random.randint(1, 4))]
        with_ = self._with() if self._chance(0.35) else ""
        text = self.query(types, Place(), 3 if self._chance(0.4) else 2)
        if self._chance(0.4):
            return Statement(f"{with_}{self._limited(text, len(types))}", True)
        return Statement(with_ + text)

    # --- queries --------------------------------------------------------------------------

    def query(self, types: list[str], place: Place, depth: int) -> str:
        """A query whose columns have these types; `place.outer` may be named in it."""
        if depth > 1 and self._chance(0.12):
            return self._set_operation(types, place, depth)
        if self._chance(0.3):
            return self._grouped(types, place, depth)
        return self._plain(types, place, depth)

    def _set_operation(self, types: list[str], place: Place, depth: int) -> str:
        word = self._pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL")
        left, right = (self.query(types, place, depth - 2) for _ in range(2))
        if self._chance(0.2):
            right = self._limited(right, len(types))
        return f"({left}) {word} ({right})"

    def _plain(self, types: list[str], place: Place, depth: int) -> str:
        from_, columns = self._from(place, depth)
        rows = replace(place, columns=columns)
        items: list[str] = []
        named = rows
        for kind in types:
            spot = replace(named, windows=self._chance(0.25))
            text = self._make.of(kind, spot, depth)
            if self._chance(0.85):
                alias = self._name("f")
                items.append(f"{text} AS {alias}")
                if self._chance(0.5):
                    named = replace(named, columns=(*named.columns, (alias, kind)))
            else:
                items.append(text)
        distinct = "DISTINCT " if self._chance(0.12) else ""
        where = f" WHERE {self._conditions(named, depth)}" if self._chance(0.65) else ""
        qualify = ""
        if not distinct and self._chance(0.08):
            qualify = f" QUALIFY {self._make.condition(replace(named, windows=True), depth)}"
        return f"SELECT {distinct}{', '.join(items)}{from_}{where}{qualify}"

    def _conditions(self, place: Place, depth: int) -> str:
        parts = [self._make.of(BOOL, place, depth) for _ in range(self._random.randint(1, 3))]
        return " AND ".join(parts)

    def _grouped(self, types: list[str], place: Place, depth: int) -> str:
        from_, columns = self._from(place, depth)
        rows = replace(place, columns=columns)
        where = f" WHERE {self._conditions(rows, depth - 1)}" if self._chance(0.4) else ""
        keyed = [i for i in range(len(types)) if self._chance(0.5)]
        keys = {i: self._make.of(types[i], rows, depth - 1) for i in keyed}
        above = replace(place, columns=tuple((keys[i], types[i]) for i in keyed), grouped=rows,
                        windows=self._chance(0.1))
        items = [keys[i] if i in keys else self._make.of(kind, above, depth)
                 for i, kind in enumerate(types)]
        named = [f"{text} AS {self._name('f')}" for text in items]
        group = self._group_by(keys, named) if keys else ""
        having = f" HAVING {self._make.of(BOOL, above, depth)}" if self._chance(0.3) else ""
        return f"SELECT {', '.join(named)}{from_}{where}{group}{having}"

    def _group_by(self, keys: dict[int, str], items: list[str]) -> str:
        forms: list[Callable[[], str]] = [
            lambda: ", ".join(keys.values()),
            lambda: ", ".join(str(i + 1) for i in keys),
            lambda: ", ".join(items[i].rpartition(" AS ")[2] for i in keys),
            lambda: "ALL",
            lambda: f"{self._pick('ROLLUP', 'CUBE')} ({', '.join(keys.values())})",
            lambda: f"GROUPING SETS (({', '.join(keys.values())}), ())",
        ]
        return f" GROUP BY {self._random.choice(forms[:4] if self._chance(0.8) else forms)()}"

    def _limited(self, text: str, count: int) -> str:
        """The query in an order that decides every row's place, and some of its rows."""
        order = ", ".join(f"{i + 1}{self._pick('', ' DESC', ' NULLS FIRST')}" for i in range(count))
        order = "ALL" if self._chance(0.15) else order
        end = ""
        if self._chance(0.6):
            end = f" LIMIT {self._random.randint(0, 6)}"
            end += f" OFFSET {self._random.randint(0, 3)}" if self._chance(0.3) else ""
        return f"{text} ORDER BY {order}{end}"

    def _starred(self) -> str:
        table = self._pick("a", "b", "c", "e")
        integer = self._pick(*(n for n, kind in COLUMNS[table].items() if kind == INT))
        rows = Place(tuple(COLUMNS[table].items()))
        value = self._make.of(INT, rows, 2)
        star = self._pick(
            "*", f"* EXCLUDE ({integer})", f"* REPLACE ({value} AS {integer})", f"{table}.*",
            f"*, {value} AS f", f"* REPLACE (w(s) AS s), q({integer})", "COLUMNS('i|x|y')")
        if self._chance(0.35):
            other = self._pick("a", "b", "c")
            join = self._pick("JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN",
                              "NATURAL JOIN", "POSITIONAL JOIN", "CROSS JOIN")
            on = "" if join.split()[0] in ("NATURAL", "POSITIONAL", "CROSS") else " USING (id)"
            return f"SELECT {star} FROM {table} {join} {other} AS z{on}"
        where = f" WHERE {self._conditions(rows, 2)}" if self._chance(0.6) else ""
        order = f" ORDER BY {self._make.of(INT, rows, 2)}" if self._chance(0.3) else ""
        return f"SELECT {star} FROM {table}{where}{order}"

    # --- WITH -----------------------------------------------------------------------------

    def _with(self) -> str:
        """One or two common table expressions, which later sources may name."""
        if self._chance(0.25):
            name = self._name("n")
            body = self._recursion(name)
            self._ctes.append(Source(name, name, (("i", INT), ("v", INT))))
            return f"WITH RECURSIVE {name}(i, v) AS ({body}) "
        texts = []
        for _ in range(self._random.randint(1, 2)):
            types = [self._random.choice(TYPES) for _ in range(self._random.randint(1, 3))]
            name = self._name("n")
            heads = tuple((f"k{i}", kind) for i, kind in enumerate(types))
            body = self.query(types, Place(), 2)
            body = self._limited(body, len(types)) if self._chance(0.2) else body
            kept = self._pick("", "", "", "MATERIALIZED ", "NOT MATERIALIZED ")
            texts.append(f"{name}({', '.join(h for h, _ in heads)}) AS {kept}({body})")
            self._ctes.append(Source(name, name, heads))
        return f"WITH {', '.join(texts)} "

    def _recursion(self, name: str) -> str:
        here = Place((("i", INT), ("v", INT)), queries=False)
        step = self._pick("q(v)", "q(q(v))", "coalesce(q(v), 3)", "if(p(v), q(v), v)")
        first = self._make.of(INT, Place((("x", INT), ("id", INT)), queries=False), 2)
        start = f"SELECT id, {first} % 10"
        only = self._make.of(BOOL, here, 2)
        if self._chance(0.5):
            return f"{start} FROM b UNION SELECT i, {step} FROM {name} WHERE {only}"
        return f"{start} FROM b UNION ALL SELECT i + 4, {step} FROM {name} WHERE i < 9 AND {only}"

    # --- FROM -----------------------------------------------------------------------------

    def _from(self, place: Place, depth: int) -> tuple[str, tuple[Column, ...]]:
        """FROM with up to four sources, and the columns that may be named above it."""
        if place.outer and self._chance(0.06):
            return "", ()
        first = self._source(depth)
        text, seen = f" FROM {first.text}", [first]
        columns = list(self._columns(first))
        count = self._random.choice((0, 0, 0, 0, 1, 1, 1, 2, 3)) if depth > 0 else 0
        for _ in range(count):
            joined, source, visible = self._join(place, tuple(columns), seen, depth)
            text += joined
            if visible:
                seen.append(source)
                columns += self._columns(source)
        names = [name for source in seen for name, _ in source.columns]
        bare = {f"{s.alias}.{name}": name for s in seen for name, _ in s.columns
                if names.count(name) == 1}
        short = self._chance(0.35)
        return text, tuple((bare.get(c, c) if short else c, kind) for c, kind in columns)

    def _columns(self, source: Source) -> tuple[Column, ...]:
        return source.qualified()

    def _join(
        self, place: Place, columns: tuple[Column, ...], seen: list[Source], depth: int
    ) -> tuple[str, Source, bool]:
        whole = [text for text, kind in columns if kind == INT]
        if whole and self._chance(0.1):
            name = self._name("u")
            source = Source(name, name, (("v", INT),))
            argument = self._make.of(INT, Place(columns, queries=False), 1)
            return f", UNNEST(l({argument})) AS {name}(v)", source, True
        if self._chance(0.1) and depth > 1:
            types = [self._random.choice(TYPES)]
            inner = self.query(types, Place(outer=columns), depth - 2)
            name = self._name("j")
            source = Source(name, name, (("k0", types[0]),))
            head, on = self._random.choice(((", LATERAL", ""), (" LEFT JOIN LATERAL", " ON TRUE"),
                                            (" JOIN LATERAL", f" ON p({name}.k0)")))
            return f"{head} ({inner}) AS {name}(k0){on}", source, True
        source = self._source(depth - 1)
        both = Place((*columns, *self._columns(source)), place.outer, queries=self._chance(0.2))
        word = self._pick(",", "CROSS JOIN", *["JOIN"] * 4, *["LEFT JOIN"] * 3, "RIGHT JOIN",
                          "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "ASOF JOIN", "ASOF LEFT JOIN",
                          "USING")
        visible = word not in ("SEMI JOIN", "ANTI JOIN")
        if word in (",", "CROSS JOIN"):
            return f"{word if word == ',' else ' ' + word} {source.text}", source, True
        if word.startswith("ASOF"):
            return self._asof(word, source, columns, seen)
        if word == "USING":
            shared = {n for s in seen for n, _ in s.columns} & {n for n, _ in source.columns}
            if len(seen) == 1 and shared:
                using = self._random.choice(sorted(shared))
                head = self._pick("JOIN", "LEFT JOIN", "FULL JOIN")
                return f" {head} {source.text} USING ({using})", source, True
            word = "JOIN"
        return f" {word} {source.text} ON {self._conditions(both, 1)}", source, visible

    def _asof(
        self, word: str, source: Source, columns: tuple[Column, ...], seen: list[Source]
    ) -> tuple[str, Source, bool]:
        """Nearest by a column that is unique in the table, among rows of equal labels."""
        table = self._pick("a", "b", "c")
        name = self._name(table)
        source = Source(f"{table} AS {name}", name, tuple(COLUMNS[table].items()))
        whole = [text for text, kind in columns if kind == INT]
        if not whole:
            return f", {source.text}", source, True
        left = self._random.choice(whole)
        label = self._pick("x" if table != "c" else "y", "id")
        same = f"q({left}) = q({name}.{label}) AND " if self._chance(0.6) else ""
        return (f" {word} {source.text} ON {same}{left} {self._pick('>=', '<', '>')} {name}.id",
                source, True)

    def _source(self, depth: int) -> Source:
        if self._ctes and self._chance(0.45):
            cte = self._random.choice(self._ctes)
            name = self._name("c")
            return Source(f"{cte.alias} AS {name}", name, cte.columns)
        if depth > 1 and self._chance(0.25):
            return self._derived(depth)
        if self._chance(0.06):
            name = self._name("v")
            call = self._pick("q(2)", "7", "NULL")
            rows = f"(VALUES (1, 'ab'), ({call}, 'dog'), (2, w('ab')))"
            return Source(f"{rows} AS {name}(g, h)", name, (("g", INT), ("h", TEXT)))
        table = self._random.choice(("a", "a", "a", "b", "b", "c", "c", "e"))
        name = self._name(table)
        return Source(f"{table} AS {name}", name, tuple(COLUMNS[table].items()))

    def _derived(self, depth: int) -> Source:
        name = self._name("d")
        if self._chance(0.25):
            heads = (("id", INT), ("x", INT), ("s", TEXT))
            star = self._pick("* REPLACE (q(x) AS x)", "* REPLACE (w(s) AS s)", "*")
            table, only = self._pick("a", "b", "e"), self._make.of(BOOL, Place(heads), 2)
            return Source(f"(SELECT {star} FROM {table} WHERE {only}) AS {name}", name, heads)
        types = [self._random.choice(TYPES) for _ in range(self._random.randint(1, 3))]
        heads = tuple((f"k{i}", kind) for i, kind in enumerate(types))
        inner = self.query(types, Place(), depth - 1)
        inner = self._limited(inner, len(types)) if self._chance(0.25) else inner
        return Source(f"({inner}) AS {name}({', '.join(h for h, _ in heads)})", name, heads)

    # --- small things ---------------------------------------------------------------------

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)


@dataclass(frozen=True)
class Change:
    """A statement that changes the tables, and a query that shows what it has changed."""

    text: str
    check: str


class ChangeGenerator:
    """Makes statements that write."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"change {seed}")
        self._queries = QueryGenerator(seed + 100_000)
        self._make = ExpressionGenerator(self._random, self._queries.query)

    def change(self) -> Change:
        kinds = (self._insert, self._create, self._update, self._update, self._delete)
        return self._random.choice(kinds)()

    def _insert(self) -> Change:
        if self._random.random() < 0.25:
            whole = self._make.of(INT, Place(queries=False), 2)
            return Change(f"INSERT INTO b (id, x) VALUES (1, q(4)), ({whole}, 7)", "FROM b")
        body = self._queries.query([INT, INT, TEXT], Place(), 2)
        more = self._random.choice(("", "", " RETURNING id, s"))
        return Change(f"INSERT INTO e {body}{more}", "FROM e")

    def _create(self) -> Change:
        types = [self._random.choice(TYPES) for _ in range(2)]
        body = self._queries.query(types, Place(), 3)
        return Change(f"CREATE OR REPLACE TABLE z AS {body}", "FROM z")

    def _update(self) -> Change:
        rows = Place((("x", INT), ("y", INT), ("s", TEXT), ("id", INT)))
        sets = [f"x = {self._make.of(INT, rows, 2)}", f"s = {self._make.of(TEXT, rows, 2)}"]
        self._random.shuffle(sets)
        where = self._make.of(BOOL, rows, 2)
        return Change(f"UPDATE a SET {', '.join(sets[:self._random.randint(1, 2)])} WHERE {where}",
                      "FROM a")

    def _delete(self) -> Change:
        rows = Place((("x", INT), ("k", INT), ("s", TEXT), ("id", INT)))
        more = self._random.choice(("", "", " RETURNING x, s"))
        return Change(f"DELETE FROM b WHERE {self._make.of(BOOL, rows, 3)}{more}", "FROM b")


def excluded(seed: int) -> str:
    """A query whose conditions without models leave no row, so that no model need be asked."""
    queries = QueryGenerator(seed + 200_000)
    make = ExpressionGenerator(random.Random(f"excluded {seed}"), queries.query)
    make.lists = False
    rows = Place((("x", INT), ("y", INT), ("s", TEXT), ("id", INT)), queries=False)
    conditions = ["id > 90", make.of(BOOL, rows, 2), make.of(BOOL, rows, 2)]
    make.random.shuffle(conditions)
    items = ", ".join(f"{make.of(kind, rows, 2)} AS f{i}" for i, kind in enumerate((INT, TEXT)))
    tail = make.pick("", " ORDER BY q(y), 1, 2", " GROUP BY ALL", " LIMIT 3")
    return f"SELECT {items} FROM a WHERE {' AND '.join(conditions)}{tail}"
