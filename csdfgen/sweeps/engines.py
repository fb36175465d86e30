"""Where are points planned? In processes of this machine, or by the workers of a running Dask cluster.

Both engines yield (place in the list, outcome) as points finish, in any order, and end all their work when they are
closed.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any

from csdfgen.errors import CsdfgenError, InputError, ToolError, first_line
from csdfgen.sweeps.point import Outcome, Task, plan_point
from csdfgen.sweeps.worker import start_worker

Finished = Generator[tuple[int, Outcome], None, None]
"""(place in the list, outcome) of finished points."""

Engine = Callable[[Sequence[Task]], Finished]

_SCHEME = "dask://"
_REACHED_WITHIN, _LEFT_WITHIN = 10, 5
"""Seconds."""

_NOT_UNPACKED = "deserialization"
"""A word in the message of Dask about a worker that lacks modules."""

_DASK_LOGGERS = ("distributed", "tornado", "asyncio")


# This machine -----------------------------------------------------------------------------------


def local_processes(tasks: Sequence[Task], jobs: int) -> Finished:
    """Plan `jobs` points at a time, in processes that end with this one in all cases.

    Raises the CsdfgenError of a worker, and ToolError if a worker was ended.
    """
    context = get_context("spawn")  # threads of linear algebra do not survive a fork
    here, there = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), context, start_worker, (here,))
    try:
        with _without_interrupts():
            places = {pool.submit(plan_point, task): place for place, task in enumerate(tasks)}
        for future in futures.as_completed(places):
            yield places[future], future.result()
    except BrokenProcessPool:
        raise ToolError(
            "a process that planned was ended from outside, perhaps for want of memory; go on with fewer --jobs"
        ) from None
    finally:
        there.close()  # processes that still plan end at once
        pool.shutdown(wait=True, cancel_futures=True)
        here.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started in the block never receive Ctrl-C, not even while they start; this one receives it
    afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# A cluster --------------------------------------------------------------------------------------


def scheduler_address(text: str) -> str:
    """The address of a scheduler in the form of Dask. Raises InputError for an invalid address.

    >>> scheduler_address("dask://10.0.0.1:8786")
    'tcp://10.0.0.1:8786'
    """
    host, colon, port = text.removeprefix(_SCHEME).rpartition(":")
    if not text.startswith(_SCHEME) or not (host and colon and port.isascii() and port.isdigit()):
        raise InputError(f"--on {text}: dask://HOST:PORT of a Dask scheduler is needed")
    return f"tcp://{host}:{port}"


def dask_cluster(tasks: Sequence[Task], address: str) -> Finished:
    """Plan the points on the workers of a scheduler (`scheduler_address`). Raises ToolError if it cannot be reached, ends,
    or has no worker that can plan, and the CsdfgenError of a worker.
    """
    distributed = _distributed()
    client = _connected(distributed, address)
    try:
        asked = [client.submit(plan_point, task, pure=False) for task in tasks]
        places = {future.key: place for place, future in enumerate(asked)}
        for future in distributed.as_completed(asked, loop=client.loop):
            yield places[future.key], _result(distributed, future, address)
            future.release()
    finally:
        _leave(client)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise InputError(
            f"--on needs Dask, which cannot be imported ({error}); pip install 'csdfgen[dask]'"
        ) from None
    for name in _DASK_LOGGERS:  # csdfgen reports errors in one line itself
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return distributed


def _connected(distributed: Any, address: str) -> Any:
    """A client of the scheduler, which must have a worker. Raises ToolError."""
    client = None
    try:
        client = distributed.Client(address, timeout=_REACHED_WITHIN, set_as_default=False)
        client.wait_for_workers(1, timeout=_REACHED_WITHIN)
    except (OSError, TimeoutError, ValueError) as error:
        if client is None:
            raise ToolError(
                f"no Dask scheduler answers within {_REACHED_WITHIN} s; start one with dask scheduler, and see "
                "that its address can be reached from here",
                where=address,
            ) from error
        _leave(client)
        raise ToolError("has no workers; start some with dask worker", where=address) from error
    return client


def _result(distributed: Any, future: Any, address: str) -> Outcome:
    """The outcome that a worker returns. Raises the CsdfgenError of the worker, or one about it."""
    try:
        return future.result()
    except (CsdfgenError, MemoryError):
        raise
    except distributed.KilledWorker:
        raise ToolError(
            "a point has ended every worker that planned it, perhaps for want of memory",
            where=address,
        ) from None
    except (OSError, futures.CancelledError) as error:
        raise ToolError(f"has gone away: {first_line(error)}", where=address) from None
    except (ImportError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _NOT_UNPACKED not in str(error):
            raise
        raise ToolError(
            "a worker cannot read what is asked of it; install csdfgen there as it is here",
            where=address,
        ) from None


def _leave(client: Any) -> None:
    """Cancel the points that have not begun; a worker completes its present point."""
    with suppress(Exception):  # the scheduler may have ended, and all points with it
        client.close(timeout=_LEFT_WITHIN)
