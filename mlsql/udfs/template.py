"""SQL expressions built from text, with holes for parts that are trees already."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp, parse_one


@lru_cache(maxsize=256)
def _parsed(template: str) -> exp.Expr:
    tree: exp.Expr = parse_one(template, dialect="duckdb")
    return tree


def expression(template: str, **parts: exp.Expr) -> exp.Expr:
    """The expression of `template` with each :name in it replaced by that part.

    >>> expression('lower(:word)', word=exp.column('x')).sql('duckdb')
    'LOWER(x)'
    """
    tree = _parsed(template).copy()
    for hole in list(tree.find_all(exp.Placeholder)):
        part = parts[hole.name].copy()
        if hole is tree:
            return part
        hole.replace(part)
    return tree
