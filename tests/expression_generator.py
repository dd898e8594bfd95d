"""Random SQL expressions over the columns at hand, with calls of the reference models."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

INT, BOOL, TEXT, REAL = "INTEGER", "BOOLEAN", "VARCHAR", "DOUBLE"
TYPES = (INT, BOOL, TEXT, REAL)
Column = tuple[str, str]  # its text and its type

_WORDS = ("'ab'", "'dog'", "'C'", "'BA'", "''", "'GOD'")


@dataclass(frozen=True)
class Place:
    """Where an expression stands: what it may name, and what it may hold."""

    columns: tuple[Column, ...] = ()
    outer: tuple[Column, ...] = ()
    grouped: Place | None = None  # set above GROUP BY: aggregates are over this place's rows
    windows: bool = False
    queries: bool = True
    calls: bool = True

    def below(self) -> Place:
        """The same inside an aggregate's or a window's arguments."""
        inner = self.grouped or self
        return replace(inner, grouped=None, windows=False)


@dataclass
class ExpressionGenerator:
    """Makes expressions of a wanted type. `query` makes a query of wanted types for a place."""

    random: random.Random
    query: Callable[[list[str], Place, int], str] = field(repr=False)
    lists: bool = True  # whether calls may stand in lambdas and comprehensions

    def of(self, kind: str, place: Place, depth: int) -> str:
        """An expression of the type; `depth` bounds how far it nests."""
        if depth <= 0 or self.chance(0.12):
            return self._leaf(kind, place)
        if place.grouped is not None and self.chance(0.45):
            return self._aggregate(kind, place, depth - 1)
        if place.windows and self.chance(0.3):
            return self._window(kind, place, depth - 1)
        makers = {INT: self._integer, BOOL: self.condition, TEXT: self._text, REAL: self._number}
        return makers[kind](place, depth - 1)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _leaf(self, kind: str, place: Place) -> str:
        columns = [text for text, type in place.columns if type == kind]
        outer = [text for text, type in place.outer if type == kind]
        if outer and self.chance(0.35):
            return self.random.choice(outer)
        if columns and self.chance(0.85):
            return self.random.choice(columns)
        if self.chance(0.06):
            return f"NULL::{kind}"
        if kind == BOOL and self.chance(0.85):
            whole = self._leaf(INT, place)
            test = f"({whole} {self.pick('<', '>=', '<>')} {self._leaf(INT, place)})"
            return self.pick(f"p({whole})", test) if place.calls else test
        return {INT: str(self.random.randint(0, 9)), BOOL: self.pick("TRUE", "FALSE"),
                TEXT: self.random.choice(_WORDS),
                REAL: f"{self.random.randint(-2, 6) / 2}::DOUBLE"}[kind]

    # --- each type ------------------------------------------------------------------------

    def _integer(self, place: Place, depth: int) -> str:
        def one() -> str:
            return self.of(INT, place, depth)
        forms: list[Callable[[], str]] = [
            lambda: self._leaf(INT, place),
            lambda: self._branch(INT, place, depth),
            lambda: f"({one()} {self.pick('+', '-')} {one()})",
            lambda: f"({one()} % {self.random.randint(2, 5)})",
            lambda: self.pick("coalesce", "nullif", "least", "greatest") + f"({one()}, {one()})",
            lambda: f"length({self.of(TEXT, place, depth)})::INTEGER",
            lambda: f"len([{one()}])::INTEGER", lambda: f"struct_extract({{'k': {one()}}}, 'k')",
        ]
        if place.calls:
            forms += 3 * [lambda: f"q({one()})"]
            forms += [
                lambda: f"t({one()}).u", lambda: f"t({one()})['u']",
                lambda: f"len(l({one()}))::INTEGER", lambda: f"l({one()})[2]",
                lambda: f"q(q({one()}))",
            ]
        if place.calls and self.lists:
            forms += [
                lambda: f"len(list_filter([{one()}, {one()}], lambda v: p(v)))::INTEGER",
                lambda: f"list_max([q(v) FOR v IN l({one()}) IF v > 0])",
            ]
        if place.queries and depth > 0:
            forms.append(lambda: self._scalar(INT, place, depth))
        return self.random.choice(forms)()

    def _text(self, place: Place, depth: int) -> str:
        def one() -> str:
            return self.of(TEXT, place, depth)
        forms: list[Callable[[], str]] = [
            lambda: self._leaf(TEXT, place),
            lambda: self._branch(TEXT, place, depth),
            lambda: f"coalesce({one()}, {one()})",
            lambda: f"upper({one()})",
            lambda: f"({one()} || {one()})[:6]",
        ]
        if place.calls:
            forms += 3 * [lambda: f"w({one()})"]
            forms += [lambda: f"t({self.of(INT, place, depth)}).v"]
        if place.queries and depth > 0:
            forms.append(lambda: self._scalar(TEXT, place, depth))
        return self.random.choice(forms)()

    def _number(self, place: Place, depth: int) -> str:
        forms: list[Callable[[], str]] = [
            lambda: self._leaf(REAL, place),
            lambda: self._branch(REAL, place, depth),
            lambda: f"{self.of(INT, place, depth)}::DOUBLE",
            lambda: f"(1 - {self.of(REAL, place, depth)})",
        ]
        if place.calls:
            forms += 3 * [lambda: f"r({self.of(INT, place, depth)})"]
        return self.random.choice(forms)()

    def condition(self, place: Place, depth: int) -> str:
        """A condition."""
        def one() -> str:
            return self.of(BOOL, place, depth)

        def whole() -> str:
            return self.of(INT, place, depth)
        forms: list[Callable[[], str]] = [
            lambda: f"({one()} AND {one()})", lambda: f"({one()} OR {one()})",
            lambda: f"(NOT {one()})", lambda: self._branch(BOOL, place, depth),
            lambda: f"({whole()} {self.pick('<', '=', '>=', '<>')} {whole()})",
            lambda: f"({self.of(TEXT, place, depth)} {self.pick('=', '<', 'LIKE')} "
                    f"{self.of(TEXT, place, depth)})",
            lambda: f"({self.of(REAL, place, depth)} > {self.of(REAL, place, depth)})",
            lambda: f"({self.of(self.random.choice(TYPES), place, depth)} IS "
                    f"{self.pick('NULL', 'NOT NULL')})",
            lambda: f"({whole()} IS NOT DISTINCT FROM {whole()})",
            lambda: f"({whole()} BETWEEN {whole()} AND {whole()})",
            lambda: f"({whole()} {self.pick('IN', 'NOT IN')} ({whole()}, {whole()}, 3))",
            lambda: f"coalesce({one()}, {one()})",
        ]
        if place.calls:
            forms += 5 * [lambda: f"p({whole()})"]
            forms += [lambda: f"list_contains(l({whole()}), {whole()})",
                      lambda: f"(p({whole()}) IS NOT TRUE)"]
        if place.queries and depth > 0:
            forms += [lambda: self._membership(place, depth), lambda: self._exists(place, depth)]
        return self.random.choice(forms)()

    def _branch(self, kind: str, place: Place, depth: int) -> str:
        def one() -> str:
            return self.of(kind, place, depth)
        test = self.of(BOOL, place, depth)
        if self.chance(0.2):
            return f"if({test}, {one()}, {one()})"
        if self.chance(0.25):
            whole = self.of(INT, place, depth)
            return f"CASE {whole} WHEN 2 THEN {one()} WHEN 7 THEN {one()} ELSE {one()} END"
        other = f" WHEN {self.of(BOOL, place, depth)} THEN {one()}" if self.chance(0.4) else ""
        end = f" ELSE {one()}" if self.chance(0.7) else ""
        return f"CASE WHEN {test} THEN {one()}{other}{end} END"

    # --- queries inside -------------------------------------------------------------------

    def _inner(self, place: Place) -> Place:
        return Place(outer=(*place.columns, *place.outer), calls=place.calls)

    def _scalar(self, kind: str, place: Place, depth: int) -> str:
        if self.chance(0.3):
            return f"({self.query([kind], self._inner(place), depth - 1)} ORDER BY 1 LIMIT 1)"
        inner = self.query([kind], self._inner(place), depth - 1)
        return f"(SELECT {self.pick('min', 'max')}(g) FROM ({inner}) AS h(g))"

    def _membership(self, place: Place, depth: int) -> str:
        inner = self.query([INT], self._inner(place), depth - 1)
        test = self.pick("IN", "NOT IN", "= ANY", "> ALL", "<> ALL")
        return f"({self.of(INT, place, depth - 1)} {test} ({inner}))"

    def _exists(self, place: Place, depth: int) -> str:
        inner = self.query([self.random.choice(TYPES)], self._inner(place), depth - 1)
        return f"{self.pick('', 'NOT ')}EXISTS ({inner})"

    # --- over several rows ----------------------------------------------------------------

    def _aggregate(self, kind: str, place: Place, depth: int) -> str:
        rows = place.below()
        only = f" FILTER (WHERE {self.of(BOOL, rows, depth)})" if self.chance(0.25) else ""
        some = self.of(self.random.choice(TYPES), rows, depth)
        if kind == INT:
            whole = self.of(INT, rows, depth)
            return self.pick(
                f"(count(*){only})::INTEGER", f"(count(DISTINCT {some}){only})::INTEGER",
                f"(sum({whole}){only})::INTEGER", f"min({whole}){only}", f"max({whole}){only}",
                f"(count({some}){only})::INTEGER", f"first({whole} ORDER BY {whole}){only}",
                f"list_max(list({whole}){only})")
        if kind == BOOL:
            return f"{self.pick('bool_and', 'bool_or')}({self.of(BOOL, rows, depth)}){only}"
        if kind == TEXT:
            text = self.of(TEXT, rows, depth)
            return self.pick(f"min({text}){only}", f"max({text}){only}",
                             f"string_agg({text}, ',' ORDER BY {text}){only}")
        return f"{self.pick('sum', 'avg', 'max', 'median')}({self.of(REAL, rows, depth)}){only}"

    def _window(self, kind: str, place: Place, depth: int) -> str:
        rows = replace(place, windows=False)
        over = self.over(rows, depth)
        value = self.of(kind, rows, depth)
        if kind == INT and self.chance(0.5):
            return f"({self.pick('rank()', 'dense_rank()', 'count(*)')} OVER ({over}))::INTEGER"
        if kind == INT and rows.grouped is None and rows.columns and self.chance(0.4):
            every = ", ".join(text for text, _ in rows.columns)
            return f"(row_number() OVER (ORDER BY {every}))::INTEGER"
        if kind == BOOL:
            return f"bool_or({value}) OVER ({over})"
        if kind == REAL and self.chance(0.5):
            return f"sum({value}) OVER ({over})"
        return f"{self.pick('min', 'max')}({value}) OVER ({over})"

    def over(self, rows: Place, depth: int) -> str:
        """What stands in OVER (…): rows that are equal in its order are treated alike."""
        order = self.of(self.random.choice((INT, TEXT)), rows, depth)
        part = self.of(self.random.choice((INT, TEXT, BOOL)), rows, depth)
        by = f"PARTITION BY {part} " if self.chance(0.6) else ""
        return f"{by}ORDER BY {order}{self.pick('', ' DESC', ' NULLS FIRST')}"
