"""What a file is by its first bytes, never by its name."""

from __future__ import annotations

# FFmpeg's names of the containers and decoders that are hardened by years of fuzzing: these, and
# no others, are opened in this process.
SAFE_FORMATS = ("mov", "matroska", "avi", "mpegts", "mpeg", "mpegvideo", "ivf", "h264", "hevc")
SAFE_CODECS = (
    "h264", "hevc", "vp8", "vp9", "av1", "libdav1d", "libaom-av1", "mpeg4", "msmpeg4", "msmpeg4v1",
    "msmpeg4v2", "mjpeg", "mpeg1video", "mpeg2video",
)
# What the contained process may open beside: single files only. Playlists (hls, dash, concat) and
# numbered pictures (image2) open files that the statement did not name.
PLAIN_FORMATS = (
    *SAFE_FORMATS, "gif", "apng", "png_pipe", "webp_pipe", "asf", "ogg", "flv", "live_flv", "rm",
    "mxf", "nut", "dv", "m4v", "vc1", "obu", "av1", "yuv4mpegpipe", "mjpeg", "swf", "wtv",
    "mp3", "wav", "flac", "aac", "jpegxl_anim", "jpeg_pipe", "bmp_pipe", "tiff_pipe", "gxf",
    "nsv", "amv", "film_cpk", "roq", "smk", "bink", "flic", "avs", "pva", "ea", "vivo", "xmv",
    "mv", "cdg",
)
_MOV_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"moof", b"styp")


def container_of(head: bytes) -> str | None:
    """FFmpeg's name of the safe container that these first bytes (1 KiB suffices) begin."""
    if head[4:8] in _MOV_BOXES and head[4:12] not in (b"ftypavif", b"ftypavis", b"ftypheic"):
        return "mov"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "matroska"
    if head[:4] == b"RIFF" and head[8:11] == b"AVI":
        return "avi"
    if _transport_stream(head):
        return "mpegts"
    if head[:4] == b"DKIF":
        return "ivf"
    return _elementary(head)


def _transport_stream(head: bytes) -> bool:
    return any(
        len(head) > first + 2 * size
        and all(head[first + k * size] == 0x47 for k in range(3))
        for first, size in ((0, 188), (4, 192))
    )


def _elementary(head: bytes) -> str | None:
    if head[:4] == b"\0\0\1\xba":
        return "mpeg"
    if head[:4] == b"\0\0\1\xb3":
        return "mpegvideo"
    start = 4 if head[:4] == b"\0\0\0\1" else 3 if head[:3] == b"\0\0\1" else 0
    if not start or len(head) <= start:
        return None
    if head[start] in (0x40, 0x46) and head[start + 1 : start + 2] == b"\1":
        return "hevc"
    return "h264" if head[start] & 0x9F in (7, 9) else None


def picture_of(head: bytes) -> str | None:
    """The picture format that these first bytes begin; None where nobody here knows."""
    if head[:3] == b"\xff\xd8\xff":
        return "jpeg"
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return "png"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[:2] == b"BM" and len(head) > 26:
        return "bmp"
    return _other_picture(head)


def _other_picture(head: bytes) -> str | None:
    for magic, name in (
        (b"GIF8", "gif"), (b"II*\0", "tiff"), (b"MM\0*", "tiff"), (b"II+\0", "tiff"),
        (b"\0\0\0\x0cjP  ", "jp2"), (b"\xff\x4f\xff\x51", "j2k"), (b"\xff\x0a", "jxl"),
        (b"\0\0\0\x0cJXL ", "jxl"), (b"v/1\1", "exr"), (b"#?RADIANCE", "hdr"), (b"8BPS", "psd"),
        (b"DDS ", "dds"), (b"\0\0\1\0", "ico"),
    ):
        if head.startswith(magic):
            return name
    if head[4:8] == b"ftyp":
        return {b"avif": "avif", b"avis": "avif", b"heic": "heic", b"heix": "heic",
                b"mif1": "heif"}.get(head[8:12])
    return "pnm" if head[:1] == b"P" and head[1:2] in b"1234567fF" and head[2:3].isspace() else None
