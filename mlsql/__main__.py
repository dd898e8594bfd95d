"""The command: `mlsql` and `python -m mlsql`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 on an error, 2 on wrong usage, 130 on ^C."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["demo"]:
        from mlsql.demo import main as demo

        return demo(words[1:])
    if words[:1] == ["cache"]:
        from mlsql.shell.cache import main as cache

        return _reported(cache, words[1:])
    from mlsql.shell.command import main as command

    return command(words)


def _reported(command: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    from mlsql.errors import Error

    try:
        return command(words)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
