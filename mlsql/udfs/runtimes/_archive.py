"""What torch's files hold, told without loading them, and how pickles in them are kept out."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from mlsql.errors import OperationalError

_WAYS_OUT = ("save the weights alone (torch.save(model.state_dict(), …)), or the model as "
             "TorchScript, torch.export or ONNX")


def members(path: Path) -> frozenset[str]:
    """The names in a zip file without its top folder; none of any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(name.partition("/")[2] for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return frozenset()


def unpickled(file: IO[bytes] | Path, device: str, what: object) -> Any:
    """The tensors of a pickle; one that wants more than tensors made is refused, not run."""
    import pickle

    import torch

    try:
        return torch.load(file, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise OperationalError(
            f"{what} holds pickled code, which is not run: {_WAYS_OUT}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's advice on which of its formats to save a model in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def plain(output: Any) -> Any:
    """A network's output with its tensors as numpy arrays."""
    if hasattr(output, "detach"):
        return output.detach().float().cpu().numpy() if output.is_floating_point() \
            else output.detach().cpu().numpy()
    if isinstance(output, dict):
        return {name: plain(part) for name, part in output.items()}
    if isinstance(output, (tuple, list)):
        return [plain(part) for part in output]
    return output


def network(module: Any, device: str) -> Callable[[Any], Any]:
    """A torch module as a function of numpy arrays."""
    import torch

    def run(batch: Any) -> Any:
        from mlsql.udfs.models._layers import full_precision

        with torch.inference_mode(), full_precision():
            return plain(module(torch.from_numpy(batch).to(device)))

    return run
