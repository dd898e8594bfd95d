"""Where rows go: standard output, or a file that .output or .once named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO


class Output:
    """Standard output until it is sent elsewhere; a file of .once takes one result."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._once = False

    @property
    def stream(self) -> TextIO:
        """What rows are written to."""
        return self._file or sys.stdout

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the rows as they come."""
        return self._file is None and sys.stdout.isatty()

    def send(self, path: str | None, once: bool = False) -> None:
        """Write to that file from now on, or to standard output where there is none. OSError."""
        self.close()
        if path is not None:
            self._file = Path(path).expanduser().open("w", encoding="utf-8", newline="\n")
            self._once = once

    def written(self) -> None:
        """A result is complete."""
        self.stream.flush()
        if self._once:
            self.close()

    def close(self) -> None:
        """Go back to standard output."""
        file, self._file, self._once = self._file, None, False
        if file is not None:
            file.close()
