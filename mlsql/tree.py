"""Going through a statement's tree and copying it: what planning does most, kept quick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from sqlglot import exp

T = TypeVar("T", bound=exp.Expr)


def walk(root: exp.Expr) -> Iterator[exp.Expr]:
    """A node and all below it, in reading order, parents first."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        add_parts(node, waiting)


def add_parts(node: exp.Expr, found: list[exp.Expr]) -> None:
    """Append the nodes right below a node, the last one first."""
    for part in reversed(node.args.values()):
        kind = part.__class__
        if kind is list:
            for each in reversed(part):
                if isinstance(each, exp.Expr):
                    found.append(each)
        elif kind is not str and part is not None and isinstance(part, exp.Expr):
            found.append(part)


def find_all(root: exp.Expr, *kinds: type[T]) -> Iterator[T]:
    """The nodes of these kinds, `root` included, in reading order."""
    for node in walk(root):
        if isinstance(node, kinds):
            yield node


def find(root: exp.Expr, *kinds: type[T]) -> T | None:
    """The first node of these kinds, `root` included."""
    return next(find_all(root, *kinds), None)


def copy_of(root: T) -> T:
    """A copy of a tree that shares what is noted on its nodes; sqlglot's own copies that too."""
    top = _bare(root)
    waiting: list[tuple[exp.Expr, exp.Expr]] = [(root, top)]
    while waiting:
        node, twin = waiting.pop()
        for key, part in node.args.items():
            if isinstance(part, exp.Expr):
                twin.args[key] = below = _placed(_bare(part), twin, key, None)
                waiting.append((part, below))
            elif part.__class__ is list:
                twin.args[key] = several = []
                for i, each in enumerate(part):
                    if isinstance(each, exp.Expr):
                        below = _placed(_bare(each), twin, key, i)
                        waiting.append((each, below))
                        several.append(below)
                    else:
                        several.append(each)
            else:
                twin.args[key] = part
    return top


def _bare(node: T) -> T:
    twin = node.__class__.__new__(node.__class__)
    twin.args = {}
    twin.parent = twin.arg_key = twin.index = twin._hash = None
    twin.comments, twin._type = node.comments, node._type
    twin._meta = None if node._meta is None else dict(node._meta)
    return twin


def _placed(node: exp.Expr, parent: exp.Expr, key: str, index: int | None) -> exp.Expr:
    node.parent, node.arg_key, node.index = parent, key, index
    return node
