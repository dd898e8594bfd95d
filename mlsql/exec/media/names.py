"""Which file names are videos and pictures, by extension; planning asks this of FROM 'x'."""

from __future__ import annotations

VIDEO = frozenset((
    "3g2", "3gp", "amv", "asf", "av1", "avi", "divx", "dv", "f4v", "flv", "gifv", "h264",
    "h265", "hevc", "ismv", "ivf", "m1v", "m2p", "m2t", "m2ts", "m2v", "m4v", "mjpeg", "mjpg",
    "mkv", "mod", "mov", "mp4", "mpe", "mpeg", "mpg", "mpg2", "mpv", "mts", "mxf", "nut", "obu",
    "ogm", "ogv", "qt", "rm", "rmvb", "ts", "vob", "webm", "wmv", "y4m",
))
IMAGE = frozenset((
    "apng", "avif", "avifs", "bmp", "cur", "dds", "dib", "exr", "gif", "hdr", "heic", "heif",
    "ico", "j2c", "j2k", "jfif", "jp2", "jpe", "jpeg", "jpf", "jpg", "jpm", "jpx", "jxl", "pbm",
    "pcx", "pfm", "pgm", "pic", "png", "pnm", "ppm", "psd", "ras", "sgi", "sr", "tga", "tif",
    "tiff", "webp", "xbm",
))


def is_video(path: str) -> bool:
    """Whether a name, or a pattern of names, ends like a video's."""
    return _extension(path) in VIDEO


def is_image(path: str) -> bool:
    """Whether a name, or a pattern of names, ends like a picture's."""
    return _extension(path) in IMAGE


def _extension(path: str) -> str:
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return extension.lower() if dot and stem else ""
