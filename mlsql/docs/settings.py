"""The page of the settings."""

from __future__ import annotations

from mlsql.config import SETTINGS, Setting
from mlsql.docs.text import NOTICE, code, sentence, table

_START = """\
# Settings

{notice}

A setting has its default, unless the environment gives it a value when a session begins, or
`connect(config={{…}})` does; `SET` changes it from then on, and `RESET` takes it back to the
environment's value or the default. DuckDB's own settings are set in the same ways.
`SELECT * FROM settings()` shows all with their values.

{example}
"""

EXAMPLE = """\
SET on_error = 'skip';
SET memory_budget = '512MB';
RESET on_error;
SELECT name, value FROM settings() WHERE name = 'memory_budget'"""


def settings_page() -> str:
    """docs/settings.md."""
    rows = [[f"`{s.name}`", _default(s), _takes(s), f"`{s.variable}`", sentence(s.meaning)]
            for s in SETTINGS.values()]
    head = _START.format(notice=NOTICE, example=code(EXAMPLE))
    return head + "\n" + table(["setting", "default", "takes", "environment", "meaning"],
                               rows) + "\n"


def _default(setting: Setting) -> str:
    if setting.default is None:
        return ""  # its meaning tells it: it hangs on the machine
    if isinstance(setting.default, bool):
        return f"`{str(setting.default).lower()}`"
    return f"`{setting.default:g}`" if isinstance(setting.default, float) else \
        f"`{setting.default}`"


def _takes(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{word}`" for word in setting.choices)
    if setting.in_bytes:
        return "bytes, or a text such as `'512MB'`"
    return {bool: "true or false", int: "whole number", float: "number", str: "text"}[setting.type]
