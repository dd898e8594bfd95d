"""The command: `mlsql` and `python -m mlsql`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 on an error, 2 on wrong usage, 130 on ^C."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["demo"]:
        from mlsql.demo import main as demo

        return demo(words[1:])
    from mlsql.shell.command import main as command

    return command(words)


if __name__ == "__main__":
    sys.exit(main())
