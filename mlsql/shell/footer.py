"""What a statement took, in words."""

from __future__ import annotations

from mlsql.result import Result


def cost(seconds: float, result: Result) -> str:
    """Seconds, model calls made and answers cached: `0.412 s, 27 model calls, 13 cached`."""
    stats = result.stats
    calls = f", {_count(stats.calls, 'model call')}, {stats.cached:,} cached"
    bad = f", {_count(len(result.errors), 'input')} not usable" if result.errors else ""
    return f"{seconds:.3f} s" + (calls if stats.models else "") + bad


def footer(seconds: float, result: Result) -> str:
    """The same behind the number of rows, and how sure an approximate answer is."""
    parts = [rows_of(result), cost(seconds, result), certainty(result)]
    return ", ".join(part for part in parts if part)


def rows_of(result: Result) -> str:
    """How many rows there are or were changed; '' for a statement that does neither."""
    if result.changes is not None:
        return f"{_count(result.changes, 'row')} changed"
    return "" if result.description is None else _count(result.rowcount, "row")


def certainty(result: Result) -> str:
    """`approximate: 0.31 ± 0.02 at 95 % confidence`, '' for an exact answer."""
    how = result.approximate
    if not how:
        return ""
    known, sure = [], ""
    if result.interval is not None:
        low, high = result.interval
        value = (low + high) / 2 if isinstance(how, bool) else how.intervals[0].value
        known.append(f"{value:.6g} ± {max(high - value, value - low):.3g}")
    if not isinstance(how, bool):
        sure = f" at {100 * how.confidence:g} % confidence"
        if how.recall is not None:
            known.append(f"recall at least {100 * how.recall:.1f} %")
        if how.precision is not None:
            known.append(f"precision at least {100 * how.precision[1]:.1f} %")
    return f"approximate{': ' if known else ''}{', '.join(known)}{sure}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
