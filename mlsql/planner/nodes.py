"""The nodes of a plan: small frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from mlsql.udfs.spec import ModelSpec


@dataclass(frozen=True)
class ModelCall:
    """A distinct (model, argument) of a stage.

    `column` of the stage's rows holds the argument. `needs` are conditions, each over the stage's
    columns and call_k (the outputs of other calls): where one is not TRUE the output is not wanted.
    """

    spec: ModelSpec
    argument: exp.Expr
    column: str
    store: str
    needs: tuple[exp.Expr, ...] = ()
    uses: int = 1  # places in the clause that ask for this output


@dataclass(frozen=True)
class Conjunct:
    """A condition that a row must meet, over the stage's columns and call_k; `text` as written.

    `condition` is None where it cannot be judged within the stage (it holds a subquery, say):
    its calls are made, and no row is dropped by it. `disjuncts` are the operands of its ORs, in
    the order in which they are tried, where each can be judged by itself.
    """

    calls: tuple[int, ...]
    condition: exp.Expr | None
    text: str
    disjuncts: tuple[Conjunct, ...] = ()


@dataclass(frozen=True)
class EarlyStop:
    """End when `rows` rows (None: all) have passed; `table` then holds what was evaluated.

    With `certain` a limit of the statement may end it, too: what it found is part of the answer.
    """

    rows: int | None
    table: str
    certain: bool = False
    again: bool = False  # `rows` is the least: go on as long as the statement gives too few


@dataclass(frozen=True)
class Stage:
    """Candidates, and the models to run over them.

    `rows` selects the candidates: one column for each argument (a0 …) and for each part of a
    condition that no model decides (x0 …). `filters` are taken in order; `tail` are calls wanted
    only for rows that meet them all.
    """

    name: str
    place: str
    rows: exp.Select
    columns: tuple[tuple[str, exp.Expr], ...]
    calls: tuple[ModelCall, ...]
    filters: tuple[Conjunct, ...] = ()
    tail: tuple[int, ...] = ()
    ordered: bool = False
    early: EarlyStop | None = None
    limit: int | None = None  # rows wanted, where stopping early would be sound
    again: bool = False  # rows that pass may be equal, of which `limit` different ones are wanted
    singly: bool = False  # a row of its scope hangs on one candidate alone, however many come
    certain: bool = False  # a limit of the statement may end it
    scope: exp.Select | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Materialise:
    """A derived table, computed once, because evaluating it again might give other rows."""

    table: str
    query: exp.Expr


@dataclass(frozen=True)
class Lookup:
    """A look-up function over a store, for places where no subquery may stand.

    What it does not find it records, so that a further pass can be made.
    """

    name: str
    store: str
    spec: ModelSpec


@dataclass(frozen=True)
class Store:
    """Where the outputs of a model lie, keyed by argument, for the length of a statement."""

    name: str
    spec: ModelSpec


Node = Stage | Materialise


@dataclass(frozen=True)
class Plan:
    """A statement as DuckDB will run it, and what must be done before."""

    nodes: tuple[Node, ...]
    final: exp.Expr
    stores: tuple[Store, ...]
    lookups: tuple[Lookup, ...]
    notes: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()

    @property
    def recorded(self) -> bool:
        """Whether a pass may find outputs missing, and another be needed."""
        return bool(self.lookups)
