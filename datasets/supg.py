"""Labels and proxy scores of two selection tasks: imagenet (50 of 50,000), onto (279 of 11,165)."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/stanford-futuredata/supg"
LICENCE = "Apache-2.0"


def where() -> Path:
    """The folder."""
    return in_test_data("tables/supg")


def tables() -> dict[str, str]:
    """Two tables of id, label and proxy_score."""
    return {f"supg_{name}": f"SELECT id, label::DOUBLE::BOOLEAN AS label, proxy_score"
                            f" FROM {literal(where() / f'{name}.csv')}"
            for name in ("imagenet", "onto")}
