"""A picture in the terminal: by the protocol of kitty or iTerm2, or as sixels."""

from __future__ import annotations

import base64
import io
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.image import Image

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image

_WIDEST, _HIGHEST = 960, 720
_ANSWERS_WITHIN = 0.3


def show(image: Image, boxes: Sequence[Mapping[str, Any]] = ()) -> str:
    """Draw a picture on the terminal, or save it where that cannot; gives a line about it.

    MLSQL_GRAPHICS = kitty, iterm2, sixel or none says what the terminal can.
    """
    from PIL import Image as Picture

    from mlsql.exec.media.boxes import drawn

    pixels = drawn(image.numpy(), list(boxes)) if boxes else image.numpy()
    whole = Picture.fromarray(pixels)
    draw = PROTOCOLS.get(protocol())
    if draw is None:
        path = Path(tempfile.mkdtemp(prefix="mlsql-")) / "picture.png"
        whole.save(path)
        return f"{image!r} saved to {path}"
    small = whole.copy()
    small.thumbnail((_WIDEST, _HIGHEST))
    for piece in draw(small):
        sys.stdout.write(piece)
    sys.stdout.write("\n")
    sys.stdout.flush()
    return repr(image)


def protocol() -> str:
    """What the terminal understands: kitty, iterm2, sixel, or none."""
    asked = os.environ.get("MLSQL_GRAPHICS", "").lower()
    if asked:
        return asked
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "none"
    program, term = os.environ.get("TERM_PROGRAM", ""), os.environ.get("TERM", "")
    inside = "TMUX" in os.environ  # it hands on neither kitty's nor iTerm2's, but may do sixels
    if not inside and ("KITTY_WINDOW_ID" in os.environ or "kitty" in term or "ghostty" in term):
        return "kitty"
    if not inside and (program in ("iTerm.app", "WezTerm", "mintty")
                       or os.environ.get("LC_TERMINAL") == "iTerm2"):
        return "iterm2"
    return "sixel" if _says_sixel() else "none"


def _says_sixel() -> bool:
    """Whether the terminal names sixels among its abilities, when asked for them (DA1)."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        sys.stdout.write("\x1b[c")
        sys.stdout.flush()
        answer, until = b"", time.monotonic() + _ANSWERS_WITHIN
        while not answer.endswith(b"c"):
            ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
            if not ready:
                return False
            answer += os.read(terminal, 64)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
    return b"4" in answer.rpartition(b"?")[2].rstrip(b"c").split(b";")[1:]


def kitty(picture: PIL.Image.Image) -> Iterator[str]:
    """The picture by kitty's protocol, a PNG in pieces of at most 4,096 characters."""
    data = _png(picture)
    for start in range(0, len(data), 4096):
        more = int(start + 4096 < len(data))
        head = f"f=100,a=T,q=2,m={more}" if start == 0 else f"m={more}"
        yield f"\x1b_G{head};{data[start:start + 4096]}\x1b\\"


def iterm2(picture: PIL.Image.Image) -> Iterator[str]:
    """The picture by iTerm2's protocol."""
    data = _png(picture)
    size = len(base64.b64decode(data))
    yield f"\x1b]1337;File=inline=1;size={size};width={picture.width}px:{data}\x07"


def sixel(picture: PIL.Image.Image) -> Iterator[str]:
    """The picture as sixels: at most 256 colours, bands of six rows, a layer a colour."""
    import numpy as np

    reduced = picture.convert("RGB").quantize(256)
    colours = (reduced.getpalette() or [])[:768]
    places = np.asarray(reduced)
    yield f'\x1bPq"1;1;{picture.width};{picture.height}'
    for number in range(len(colours) // 3):
        parts = ";".join(str(round(c * 100 / 255)) for c in colours[3 * number:3 * number + 3])
        yield f"#{number};2;{parts}"
    for top in range(0, picture.height, 6):
        yield "$".join(_layers(places[top:top + 6])) + "-"
    yield "\x1b\\"


def _layers(band: np.ndarray[Any, Any]) -> Iterator[str]:
    """The layers of a band: for each colour in it, six bits a column, runs counted."""
    import numpy as np

    bits = 1 << np.arange(len(band))[:, None]
    for number in np.unique(band):
        columns = ((band == number) * bits).sum(axis=0)
        edges = np.flatnonzero(np.diff(columns)) + 1
        starts = np.concatenate([[0], edges])
        runs = np.diff(np.concatenate([starts, [len(columns)]]))
        yield f"#{number}" + "".join(
            f"!{run}{chr(63 + columns[start])}" if run > 3 else chr(63 + columns[start]) * run
            for start, run in zip(starts, runs))


def _png(picture: PIL.Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return base64.b64encode(buffer.getvalue()).decode()


PROTOCOLS: Mapping[str, Callable[[PIL.Image.Image], Iterator[str]]] = {
    "kitty": kitty, "iterm2": iterm2, "sixel": sixel}
