"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

NOTICE = "<!-- Written by `python -m mlsql.docs` from the code: change it there. -->"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str, language: str = "sql") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def sentence(text: str) -> str:
    """A meaning as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
