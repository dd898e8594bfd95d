"""A video file opened for reading: this file, no protocol, no playlist, no decoder but the known.

FFmpeg takes names for URLs and follows playlists; so the name is made a plain 'file:' one, the
container is named by us from the first bytes, and everything else is forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.sniff import PLAIN_FORMATS, SAFE_CODECS, SAFE_FORMATS, container_of

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.video.stream import VideoStream

_SECONDS = 20.0  # an open or a read that takes longer is given up
_READ_FAULTS = 64  # damaged places that reading steps over before it gives up


class NotHere(Exception):
    """The file's format or codec is not decoded in this process."""


class Source:
    """An open container and its video stream."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self.container = container
        self.stream = stream

    def packets(self) -> Iterator[av.Packet[VideoStream]]:
        """The packets from here on, empty ones left out; damaged places are stepped over."""
        import av.error

        for _ in range(_READ_FAULTS):
            try:
                for packet in self.container.demux(self.stream):
                    if packet.size:  # an empty packet would tell the decoder that all is over
                        yield packet
                return
            except av.error.FFmpegError:
                continue

    def close(self) -> None:
        """Give back the file and the decoder."""
        self.container.close()


def open_video(
    path: str, limits: Limits, name: str, *, exotic: bool, threads: int = 1
) -> Source:
    """The video of a local file; NotHere asks for the contained process, else a MediaError."""
    import av.error

    container = _open(path, name, exotic)
    try:
        stream = _stream(container, name)
        codec = stream.codec_context
        if not exotic and codec.name not in SAFE_CODECS:
            raise NotHere(codec.name)
        if codec.width and codec.height:
            limits.check_size(codec.width, codec.height, name)
        codec.options = {"max_pixels": str(min(limits.max_pixels, 2**31 - 1))}
        codec.thread_count = threads
        if threads != 1:
            codec.thread_type = "AUTO"
    except av.error.FFmpegError as error:
        container.close()
        raise MediaError(f"{name}: cannot be opened ({error.strerror})", name) from error
    except BaseException:
        container.close()
        raise
    return Source(container, stream)


@contextmanager
def opened(path: str, limits: Limits, name: str, exotic: bool) -> Iterator[Source]:
    """`open_video` on one thread for the length of a block."""
    source = open_video(path, limits, name, exotic=exotic)
    try:
        yield source
    finally:
        source.close()


def _open(path: str, name: str, exotic: bool) -> InputContainer:
    import av
    import av.error

    with open(path, "rb") as file:
        kind = container_of(file.read(1024))
    if kind is None and not exotic:
        raise NotHere(name)
    options = {
        "protocol_whitelist": "file",
        "format_whitelist": ",".join(PLAIN_FORMATS if exotic else SAFE_FORMATS),
    }
    if not exotic:
        options["codec_whitelist"] = ",".join((*SAFE_CODECS, "aac", "mp3", "mp3float", "opus"))
    try:
        return av.open(
            f"file:{path}", format=None if exotic else kind, container_options=options,
            metadata_errors="replace", timeout=(_SECONDS, _SECONDS))
    except (av.error.FFmpegError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise MediaError(
            f"{name}: is not a video, or is cut short or damaged at its beginning ({why})", name,
        ) from error


def _stream(container: InputContainer, name: str) -> VideoStream:
    from av.stream import Disposition

    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic:  # a sound file's cover
            if stream.codec_context is None:
                raise MediaError(f"{name}: its video codec is not supported", name)
            return stream
    kinds = sorted({s.type for s in container.streams if s.type})
    raise MediaError(f"{name}: holds no video ({', '.join(kinds) or 'nothing'} only)", name)
