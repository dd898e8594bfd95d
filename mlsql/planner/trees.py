"""Questions about a statement's tree: which SELECT owns a node, and what kind of thing it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from sqlglot import exp

from mlsql.parser.dialect import DIALECT
from mlsql.tree import add_parts, copy_of, find, find_all, walk
from mlsql.udfs.function import ModelOutput

Query = (exp.Select, exp.SetOperation)
T = TypeVar("T", bound=exp.Expr)

# Functions that answer anew each time they are asked (DuckDB's VOLATILE ones that people use).
VOLATILE = frozenset({
    "RANDOM", "UUID", "GEN_RANDOM_UUID", "UUIDV4", "UUIDV7", "NEXTVAL", "CURRVAL", "SETSEED",
    "RAND", "GETVARIABLE",
})


def owner(node: exp.Expr) -> exp.Select | None:
    """The nearest SELECT around a node (not the node itself)."""
    above = node.parent
    while above is not None and not isinstance(above, exp.Select):
        above = above.parent
    return above


def place(node: exp.Expr, scope: exp.Expr) -> str:
    """The clause of `scope` that a node stands in: 'where', 'expressions', 'joins' …"""
    below, above = node, node.parent
    while above is not None and above is not scope:
        below, above = above, above.parent
    return str(below.arg_key)


def own(root: exp.Expr, kind: type[T]) -> Iterator[T]:
    """The nodes of a kind below `root` that no nested query owns, in reading order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is not root and isinstance(node, Query):
            continue
        if isinstance(node, kind):
            yield node
        add_parts(node, waiting)


def nested(root: exp.Expr) -> list[exp.Expr]:
    """The outermost queries below `root`, not counting itself."""
    found: list[exp.Expr] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is not root and isinstance(node, Query):
            found.append(node)
        else:
            add_parts(node, waiting)
    return found


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The operands of the ANDs at the top of a condition."""
    if condition is None:
        return []
    bare = condition.unnest()
    return list(bare.flatten()) if isinstance(bare, exp.And) else [condition]


def disjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The operands of the ORs at the top of a condition, those that ask no model as one, first."""
    bare = condition.unnest()
    if not isinstance(bare, exp.Or):
        return [condition]
    operands = list(bare.flatten(unnest=False))
    return sorted(operands, key=calls_models)


def conjunction(parts: Iterable[exp.Expr]) -> exp.Expr | None:
    """All parts joined by AND, each in parentheses where it needs them; None for none."""
    given = [copy_of(part) for part in parts]
    return exp.and_(*given, copy=False) if given else None


def calls_models(node: exp.Expr) -> bool:
    """Whether a model's output is asked for anywhere below."""
    return find(node, ModelOutput) is not None


def names_parameter(node: exp.Expr) -> bool:
    """Whether an expression uses a parameter of a lambda or list comprehension around it."""
    parameters: set[str] = set()
    around = node.find_ancestor(exp.Lambda, exp.Comprehension)
    while around is not None:
        given = around.expressions if isinstance(around, exp.Lambda) else [around.expression]
        parameters |= {p.name for p in given}
        around = around.find_ancestor(exp.Lambda, exp.Comprehension)
    return any(i.name in parameters for i in find_all(node, exp.Identifier))


def is_volatile(node: exp.Expr) -> bool:
    """Whether an expression may give another value when it is evaluated again."""
    found = find_all(node, exp.Rand, exp.Uuid, exp.TableSample, exp.Anonymous)
    return any(not isinstance(f, exp.Anonymous) or f.name.upper() in VOLATILE for f in found)


class _Kept:
    """A value in a node's meta that copies of the node share: sqlglot copies meta deeply."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: object) -> _Kept:
        return self


def keep(node: exp.Expr, key: str, value: Any) -> None:
    """Note something on a node, and on every copy of it."""
    node.meta[key] = _Kept(value)


def kept(node: exp.Expr, key: str, default: Any = None) -> Any:
    """What was noted on a node."""
    found = node.meta_get(key)
    return found.value if isinstance(found, _Kept) else default


WRITTEN = "mlsql_written"  # a key of meta: the call that an expression was expanded from


def as_written(tree: exp.Expr) -> str:
    """The SQL of an expression with model functions as they were called, not as they expand."""
    held = exp.paren(copy_of(tree), copy=False)
    for node in list(walk(held)):
        if node.parent is not None and node.meta_get(WRITTEN) is not None:
            node.replace(exp.Var(this=node.meta[WRITTEN]))
    return shown(held.this)


def shown(node: exp.Expr) -> str:
    """The SQL of an expression for people: functions in the case in which they were written."""
    return node.sql(dialect=DIALECT, normalize_functions=False)


def aliased(node: exp.Expr) -> str:
    """The name by which a source of FROM is known, '' if it has none."""
    return str(node.alias_or_name)


def sources(scope: exp.Select) -> list[exp.Expr]:
    """What FROM and the joins name, in order."""
    first = scope.args.get("from_")
    joins = scope.args.get("joins") or []
    # A comma after a parenthesised join hangs further joins on the source itself.
    return ([first.this] if first else []) + [join.this for join in joins]


def ctes(node: exp.Expr) -> list[exp.CTE]:
    """The common table expressions that a query itself defines."""
    with_ = node.args.get("with_")
    return list(with_.expressions) if with_ else []


def read_ctes(query: exp.Expr) -> set[str]:
    """The names, in lower case, that a query and the CTEs it reads take as sources."""
    defined = ctes(query)
    inside = {id(t) for cte in defined for t in find_all(cte, exp.Table)}
    read = {t.name.lower() for t in find_all(query, exp.Table) if id(t) not in inside}
    grown = True
    while grown:
        before = len(read)
        for cte in defined:
            if cte.alias.lower() in read:
                read |= {t.name.lower() for t in find_all(cte, exp.Table)}
        grown = len(read) > before
    return read


def visible_ctes(node: exp.Expr) -> list[exp.CTE]:
    """The common table expressions that a place in the statement sees, outermost first."""
    found: list[exp.CTE] = []
    above: exp.Expr | None = node
    while above is not None:
        defined = ctes(above)
        inside = next((i for i, cte in enumerate(defined) if _holds(cte, node)), None)
        recursive = bool(above.args.get("with_") and above.args["with_"].recursive)
        if inside is not None and not recursive:
            defined = defined[:inside]
        found = defined + found
        above = above.parent
    return found


def _holds(container: exp.Expr, node: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None:
        if above is container:
            return True
        above = above.parent
    return False
