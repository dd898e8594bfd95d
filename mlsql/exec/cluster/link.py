"""The connection to Ray: begun when it is first needed, ended only where it was begun here."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mlsql.errors import OperationalError

_lock = threading.Lock()
_holders = 0
_started_here = False
_address = ""
_keeper = threading.Event()  # set, it lets the thread go that Ray was begun in


def hold() -> None:
    """Somebody may need Ray: what is started from now on lives until the last one lets go."""
    global _holders
    with _lock:
        _holders += 1


def let_go() -> None:
    """End the Ray that was started here, if nobody else holds it."""
    global _holders, _started_here
    with _lock:
        _holders -= 1
        if _holders > 0 or not _started_here:
            return
        _started_here = False
        import ray

        with _hushed():
            ray.shutdown()
        _keeper.set()


def is_ours() -> bool:
    """Whether the Ray this process is connected to was begun here."""
    return _started_here


def connected(address: str) -> Any:
    """The module ray, connected: to what is running, to `address`, or to a Ray of our own."""
    global _started_here, _address
    with _lock, _hushed():
        ray = _imported()
        if ray.is_initialized():
            if address and _started_here and address != _address:
                raise OperationalError(
                    f"this process is connected to Ray at {_address or 'this machine'!r}: close "
                    f"its sessions before one connects to {address!r}")
            return ray
        where = address or os.environ.get("RAY_ADDRESS", "")
        options: dict[str, Any] = {"address": where} if where else {
            "address": "local", "num_cpus": os.cpu_count() or 1, "include_dashboard": False}
        try:
            with _importable():
                _kept(lambda: _begun(ray, options))
        except Exception as error:
            at = f" at {where!r}" if where else ""
            said = (str(error).strip().splitlines() or [""])[0]
            raise OperationalError(
                f"Ray{at} cannot be reached: {type(error).__name__}: {said}") from error
        _started_here, _address = True, where
        return ray


def _begun(ray: Any, options: Mapping[str, Any]) -> None:
    """Start Ray, or join one. A busy machine may not be up in Ray's half a minute: once more."""
    for last in (bool(options.get("address") != "local"), True):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False,
                     **options)
        except Exception:
            ray.shutdown()
            if last:
                raise
        else:
            return


def _kept(begin: Callable[[], object]) -> None:
    """Run this in a thread that lasts until Ray is ended.

    Linux ends the processes of a local Ray with the thread that started them, not the process.
    """
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def keep() -> None:
        try:
            begin()
        except BaseException as error:
            outcome.put(error)
            return
        outcome.put(None)
        over.wait()

    global _keeper
    over = _keeper = threading.Event()
    threading.Thread(target=keep, name="mlsql-ray", daemon=True).start()
    error = outcome.get()
    if error is not None:
        raise error




@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """Let processes that are started now find mlsql where this one did, a source checkout too."""
    root = str(Path(__file__).resolve().parents[3])
    before = os.environ.get("PYTHONPATH")
    if "site-packages" not in root:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, before] if before else [root])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = before


def _imported() -> Any:
    # Usage statistics would be sent to a third party; whoever wants that says so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise OperationalError(
            f"executor 'ray' needs the package ray, which cannot be imported: {error}") from error
    _quieten(ray)
    return ray


def _quieten(ray: Any) -> None:
    """Ray prints the death of a worker to standard output, among the rows of a result."""
    module = sys.modules.get("ray._private.worker")
    if module is not None and hasattr(module, "print_to_stdstream"):
        with contextlib.suppress(Exception):
            module.print_to_stdstream = _to_log  # type: ignore[attr-defined]


def _to_log(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
    logging.getLogger("mlsql.ray").info("%s", "\n".join(map(str, data.get("lines", ()))))


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Without the advice that Ray has for those who start it by hand."""
    loggers = [logging.getLogger(name) for name in ("ray", "ray._private")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)
