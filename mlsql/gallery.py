"""A gallery: one HTML page of a result's pictures with their boxes, times and labels.

The page needs nothing but itself: no script, no other file, no network. Everything in it that came
from the data is escaped.
"""

from __future__ import annotations

import base64
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.boxes import Detection, clean, is_detections, overlay
from mlsql.display import text
from mlsql.errors import ProgrammingError
from mlsql.image import Image
from mlsql.thumbnails import Thumbnail, thumbnails
from mlsql.values import is_media

if TYPE_CHECKING:
    from mlsql.result import Result

MOST = 300
_ROOM = 12_000_000  # bytes of JPEG on a page
_SIZES = (512, 384, 256, 192, 128)
_LISTED = 12  # labels below a picture
_TEXT = 300  # characters of one value


@dataclass(frozen=True)
class Card:
    """A picture of a result, what was found in it, and the other values of its row as text."""

    image: Image
    boxes: tuple[Detection, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    ts: float | None = None


@dataclass(frozen=True)
class Page:
    """A page that was written: where, and what is on it, in words."""

    path: Path
    said: str


def page(result: Result, path: Path | None = None, title: str = "") -> Page:
    """Write the gallery of a result to a file, by default one in the temporary folder.

    A result without pictures is a ProgrammingError. Of more than 300, the first are on the page.
    """
    shown = list(islice(cards(result), MOST + 1))
    if not shown:
        raise ProgrammingError(
            "the last answer has no pictures: select frame, image, or path and frame_id")
    more = len(shown) > MOST
    shown = shown[:MOST]
    if path is None:
        path = Path(tempfile.mkdtemp(prefix="mlsql-")) / "gallery.html"
    count = f"{len(shown):,} picture{'' if len(shown) == 1 else 's'}"
    said = f"the first {count}" if more else count
    path.write_text(html(shown, title, said), encoding="utf-8")
    return Page(path.absolute(), said)


def cards(result: Result, row: int | None = None) -> Iterator[Card]:
    """The pictures of all rows, or of the one with that number, from 0."""
    rows = islice(result.printed(keep=True), row or 0, None if row is None else row + 1)
    columns = _Columns(result.columns, [is_media(k) for k in result.kinds],
                       [is_detections(k) for k in result.kinds])
    return (card for values in rows for card in columns.cards(values))


@dataclass(frozen=True)
class _Columns:
    """What each column of a result holds."""

    names: Sequence[str]
    media: Sequence[bool]
    found: Sequence[bool]

    def cards(self, row: Sequence[Any]) -> Iterator[Card]:
        """The pictures of a row; without any, the one that path and frame_id say."""
        given = dict(zip(self.names, row))
        pictures = [v for v, media in zip(row, self.media) if media and v is not None]
        if not any(self.media) and isinstance(given.get("path"), str):
            frame = given.get("frame_id")
            pictures = [Image(given["path"], frame if isinstance(frame, int) else None)]
        boxes = self._boxes(row, len(pictures))
        ts = given.get("ts")
        for at, image in enumerate(pictures):
            yield Card(image, boxes[at], self._facts(row),
                       float(ts) if isinstance(ts, (int, float)) else None)

    def _boxes(self, row: Sequence[Any], pictures: int) -> list[tuple[Detection, ...]]:
        """Pairwise where there are as many pictures as columns of boxes, else on the first."""
        found = [v if isinstance(v, list) else [v] for v, is_found in zip(row, self.found)
                 if is_found]
        lists = [tuple(box for box in boxes if box is not None) for boxes in found]
        if len(lists) == pictures:
            return lists
        return [sum(lists, ()), *[()] * (pictures - 1)]

    def _facts(self, row: Sequence[Any]) -> tuple[tuple[str, str], ...]:
        """What is neither picture nor boxes, nor said elsewhere on the card."""
        return tuple(
            (name, "NULL" if value is None else text(value))
            for name, value, media, found in zip(self.names, row, self.media, self.found)
            if not media and not found and name not in ("path", "frame_id", "ts"))


def html(shown: Sequence[Card], title: str, said: str) -> str:
    """The page with those cards."""
    small = thumbnails([card.image for card in shown], _ROOM, _SIZES)
    colours: dict[str, str] = {}
    figures = "\n".join(_figure(card, small[card.image], colours) for card in shown)
    asked = f"<pre>{clean(title.strip(), 4000)}</pre>" if title.strip() else ""
    return _PAGE.format(style=_STYLE, said=clean(said, 100), asked=asked, figures=figures)


def _figure(card: Card, small: Thumbnail | str | None, colours: dict[str, str]) -> str:
    return (f"<figure>{_picture(card, small, colours)}<figcaption>{_heading(card)}"
            f"{_labels(card, colours)}{_facts(card)}</figcaption></figure>")


def _picture(card: Card, small: Thumbnail | str | None, colours: dict[str, str]) -> str:
    if not isinstance(small, Thumbnail):
        reason = small or "there is no room for it on the page"
        return f'<div class="none">{clean(reason, 500)}</div>'
    data = base64.b64encode(small.jpeg).decode()
    name = clean(repr(card.image), 200)
    return (f'<label class="pic"><input type="checkbox" aria-label="larger">'
            f'<img width="{small.width}" height="{small.height}" alt="{name}" loading="lazy" '
            f'src="data:image/jpeg;base64,{data}">'
            f'{overlay(card.boxes, small.full, colours)}</label>')


def _heading(card: Card) -> str:
    """The time in the video first, then the file and the picture's number."""
    image = card.image
    name = "" if image.uri is None else image.uri.rstrip("/").rsplit("/", 1)[-1]
    frame = "" if image.frame is None else f" #{image.frame:,}"
    time = "" if card.ts is None else f"<time>{clock(card.ts)}</time> "
    whole = clean(image.uri or "", 1000)
    return f'<p class="head">{time}<span title="{whole}">{clean(name, 80)}{frame}</span></p>'


def clock(seconds: float) -> str:
    """A time in a video: 0:07.48, 12:03.00, 1:02:03.50."""
    hundredths = round(abs(seconds) * 100)
    minutes, rest = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{'-' if seconds < 0 else ''}{shown}:{rest / 100:05.2f}"


def _labels(card: Card, colours: dict[str, str]) -> str:
    """What was found, the surest first, each label once with its best score and its number."""
    found: dict[str, list[float]] = {}
    for box in card.boxes:
        found.setdefault(text(box["label"]), []).append(box["score"] or 0.0)
    chips = []
    for label, scores in sorted(found.items(), key=lambda item: -max(item[1])):
        times = f" ×{len(scores)}" if len(scores) > 1 else ""
        colour = colours.get(label, "#888")
        chips.append(f'<li style="--c:{colour}">{clean(label, 80)}{times} '
                     f"<small>{max(scores):.2f}</small></li>")
    rest = len(chips) - _LISTED
    more = f"<li>… {rest} more</li>" if rest > 0 else ""
    return f"<ul>{''.join(chips[:_LISTED])}{more}</ul>" if chips else ""


def _facts(card: Card) -> str:
    pairs = "".join(f"<dt>{clean(name, 80)}</dt><dd>{clean(value, _TEXT)}</dd>"
                    for name, value in card.facts)
    return f"<dl>{pairs}</dl>" if pairs else ""


def opened(path: Path) -> bool:
    """Show a page in the browser; False where there is no screen to show it on."""
    import webbrowser

    screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return screen and webbrowser.open(path.as_uri())


_STYLE = """\
:root{color-scheme:light dark;--back:#f6f6f4;--card:#fff;--ink:#1b1b1a;--soft:#666;--line:#dcdcd8}
@media (prefers-color-scheme:dark){:root{--back:#141414;--card:#1f1f1f;--ink:#ececea;--soft:#a3a3a0;
 --line:#333}}
*{box-sizing:border-box}
body{margin:0;padding:clamp(12px,2vw,32px);background:var(--back);color:var(--ink);
 font:15px/1.45 system-ui,sans-serif}
header{margin:0 0 16px}
h1{font-size:18px;margin:0 0 8px;font-weight:600}
pre{margin:0;padding:10px 12px;background:var(--card);border:1px solid var(--line);
 border-radius:8px;font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;
 max-height:12em;overflow:auto}
main{display:grid;gap:16px;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));
 align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;
 overflow:hidden;min-width:0}
figure:has(input:checked){grid-column:1/-1;max-width:min(100%,calc(100vh*1.4))}
.pic{display:block;position:relative;overflow:hidden;line-height:0;cursor:zoom-in}
.pic:has(:checked){cursor:zoom-out}
.pic input{position:absolute;opacity:0}
.pic:focus-within{outline:3px solid #4c8dff;outline-offset:-3px}
.pic img{display:block;width:100%;height:auto}
.box{position:absolute;border:2px solid;border-radius:2px}
.box b{position:absolute;left:-1px;top:0;font:600 11px/14px system-ui,sans-serif;padding:0 3px;
 white-space:nowrap;color:#000}
.none{padding:32px 16px;color:var(--soft);text-align:center;overflow-wrap:anywhere}
figcaption{padding:10px 12px 12px}
.head{margin:0;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
time{font-weight:600;font-size:16px;color:var(--ink);font-variant-numeric:tabular-nums}
ul{list-style:none;display:flex;flex-wrap:wrap;gap:6px;margin:8px 0 0;padding:0}
li{padding:1px 8px;border:1px solid var(--line);border-left:5px solid var(--c,#888);
 border-radius:6px;font-size:13px;overflow-wrap:anywhere;min-width:0}
li small,dt{color:var(--soft)}
dl{display:grid;grid-template-columns:minmax(0,max-content) minmax(0,1fr);gap:2px 12px;
 margin:8px 0 0;font-size:13px}
dd{margin:0;overflow-wrap:anywhere}"""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'">
<title>mlsql: {said}</title>
<style>
{style}
</style>
</head>
<body>
<header><h1>{said}</h1>{asked}</header>
<main>
{figures}
</main>
</body>
</html>
"""
