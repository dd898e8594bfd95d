"""How the process treats memory and waiting threads: what torch's libraries are told of it."""

from __future__ import annotations

import ctypes
import functools
import os
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # from glibc's malloc.h
_KEEP = 256 << 20


@functools.cache
def keep_large_blocks() -> bool:
    """Raise glibc's mmap, trim and top-pad thresholds, once; False where there is no glibc.

    Otherwise each large tensor goes back to the kernel when it is freed, and its successor pays
    for fresh pages.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # glibc caps the mmap threshold at 32 MB; more than that is refused.
    settings = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, _KEEP), (_TOP_PAD, 16 << 20))
    return all([bool(mallopt(name, size)) for name, size in settings])


def wait_passively() -> None:
    """Have OpenMP's threads sleep while they wait, unless the user said otherwise.

    They would otherwise spin, on the processors that decode the next pictures. It is read when
    torch is loaded, so this comes before.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
