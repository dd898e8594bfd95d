"""SQL expressions built from text, with holes for parts that are trees already."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp, parse_one

from mlsql.tree import copy_of, find_all


@lru_cache(maxsize=256)
def _parsed(template: str) -> exp.Expr:
    tree: exp.Expr = parse_one(template, dialect="duckdb")
    return tree


def expression(template: str, **parts: exp.Expr) -> exp.Expr:
    """The expression of `template` with each :name in it replaced by that part.

    >>> expression('lower(:word)', word=exp.column('x')).sql('duckdb')
    'LOWER(x)'
    """
    tree = copy_of(_parsed(template))
    for hole in list(find_all(tree, exp.Placeholder)):
        part = copy_of(parts[hole.name])
        if hole is tree:
            return part
        hole.replace(part)
    return tree
