"""SQL in notebooks: `%load_ext mlsql` gives %mlsql, %%mlsql and, where free, %sql and %%sql."""

from __future__ import annotations

from typing import Any

NAMES = ("mlsql", "sql")


def load_ipython_extension(shell: Any) -> None:
    """Give an IPython shell the magics; a %sql that another extension brought stays its own."""
    from IPython.core.magic import needs_local_scope, no_var_expand

    from mlsql.magics.magic import MlsqlMagic
    from mlsql.result import Result

    magic = next((c for c in shell.configurables if isinstance(c, MlsqlMagic)), None)
    if magic is None:
        magic = MlsqlMagic(shell=shell, parent=shell)
        shell.configurables.append(magic)
    run = magic.magic()
    for name in NAMES:
        owner = _owner(shell, name)
        if owner is None or owner.__module__.startswith("mlsql."):
            shell.register_magic_function(
                no_var_expand(needs_local_scope(run)), magic_kind="line_cell", magic_name=name)
        elif magic.feedback:
            print(f"%{name} belongs to {owner.__module__.partition('.')[0]}: use %mlsql")
    shell.display_formatter.mimebundle_formatter.for_type(Result, magic.bundle)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away; the connections close with the kernel."""
    from mlsql.result import Result

    for name in NAMES:
        owner = _owner(shell, name)
        if owner is not None and owner.__module__.startswith("mlsql."):
            for kind in ("line", "cell"):
                shell.magics_manager.magics[kind].pop(name, None)
    shell.display_formatter.mimebundle_formatter.pop(Result, None)


def _owner(shell: Any, name: str) -> Any:
    """The function behind a magic's name; None where the name is free."""
    magics = shell.magics_manager.magics
    return magics["cell"].get(name) or magics["line"].get(name)
