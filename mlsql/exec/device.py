"""Which device 'auto' is."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path


@functools.cache
def resolved(device: str) -> str:
    """The torch device of that name; 'auto' is the first GPU, else Apple's, else the processor.

    torch is imported only where there is a sign of a GPU.
    """
    if device != "auto":
        return device
    apple = sys.platform == "darwin"
    signs = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
    if not (apple or shutil.which("nvidia-smi") or any(Path(sign).exists() for sign in signs)):
        return "cpu"
    try:
        import torch
    except ImportError:
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if apple and torch.backends.mps.is_available() else "cpu"
