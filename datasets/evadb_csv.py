"""Three small tables: employees, home rentals, air passengers."""

from __future__ import annotations

from pathlib import Path

from datasets.places import in_test_data, literal

ORIGIN = "github.com/georgia-tech-db/evadb"
LICENCE = "Apache-2.0"
FILES = {"employee": "Employee", "home_rentals": "home_rentals",
         "air_passengers": "air-passengers"}


def where() -> Path:
    """The folder."""
    return in_test_data("tables/evadb_csv")


def tables() -> dict[str, str]:
    """A table a file."""
    return {name: f"FROM {literal(where() / f'{file}.csv')}" for name, file in FILES.items()}
