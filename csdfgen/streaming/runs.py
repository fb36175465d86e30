"""How does a stream run from one file to others? Piece by piece; now and then its state is kept beside the output, so that it
goes on where it was interrupted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from csdfgen.errors import CsdfgenError, InputError, first_line, option
from csdfgen.files import write_bytes
from csdfgen.streaming.sinks import Sink, Wanted, check_paths, open_sink
from csdfgen.streaming.sources import STDIN, Source
from runtime.resident import read_resident_bytes
from runtime.stream import Stream, StreamProgram

Progress = Callable[..., None]

_EVERY = 10.0
"""Seconds between two states that are kept."""

_PIECE = 1 << 20
"""Bytes of rows that are read at a time."""


@dataclass
class Figures:
    """What a run was. rows: that it read, and by output wrote. seconds: without opening. longest: seconds of the longest push.
    resident_bytes: of the process at most.
    """

    rows: int = 0
    written: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    longest: float = 0.0
    resident_bytes: int = 0


def state_path(output: Path) -> Path | None:
    """Where the state of a run is kept; nowhere for one into a pipe."""
    return None if str(output) == STDIN else output.with_name(f"{output.name}.stream")


def run_stream(
    program: StreamProgram,
    source: Source,
    output: Path,
    *,
    resume: bool = False,
    progress: Progress,
) -> Figures:
    """Read all rows of a source, and write those of the outputs. Raises
    InputError; KeyboardInterrupt after Ctrl-C, when the state was kept.
    """
    place, name = state_path(output), next(iter(program.inputs))
    stream = program.open(_kept(place) if resume else None)
    totals = dict[str, int | None](program.count_rows(source.rows)) if source.rows else {}
    sinks = {
        one: open_sink(
            path, Wanted(program.outputs[one], totals.get(one), stream.rows_out[one], source.rate)
        )
        for one, path in check_paths(output, [*program.outputs]).items()
    }
    figures, begun, kept = Figures(), perf_counter(), perf_counter()
    piece = _rows_of_piece(program, source)
    with _interrupts() as interrupted:
        while True:
            at = stream.rows_in[name]
            progress(
                f"{figures.rows / max(perf_counter() - begun, 1e-9):,.0f} rows/s", at, source.rows
            )
            rows = _read(source, at, piece)
            start = perf_counter()
            if not rows.shape[program.inputs[name].row_axis or 0]:
                break
            _write(sinks, stream, stream.push(rows))
            figures.rows += stream.rows_in[name] - at
            figures.longest = max(figures.longest, perf_counter() - start)
            if place and (interrupted or perf_counter() - kept > _EVERY):
                _keep(place, stream, sinks)
                kept = perf_counter()
            if interrupted:
                raise KeyboardInterrupt(_way_on(place, stream.rows_in[name]))
        _write(sinks, stream, stream.finish())
    for sink in sinks.values():
        sink.close()
    if place:
        place.unlink(missing_ok=True)
    figures.seconds, figures.written = perf_counter() - begun, stream.rows_out
    figures.resident_bytes = read_resident_bytes(most=True)
    return figures


def _rows_of_piece(program: StreamProgram, source: Source) -> int:
    """Rows that are read at a time: a slab of what may come slowly."""
    (tensor, *_) = program.inputs.values()
    slab = int(program.segments.fed[1, 0])
    return slab if source.rows is None else max(slab, _PIECE // tensor.row_bytes)


def _read(source: Source, start: int, count: int) -> np.ndarray:
    """Rows of a source, whose library may find only now that a file is damaged. Raises InputError."""
    try:
        return source.read(start, count)
    except CsdfgenError:
        raise
    except Exception as error:  # decoders raise what they like
        raise InputError(f"rows from {start:,} on cannot be read: {first_line(error)}") from None


def _write(sinks: Mapping[str, Sink], stream: Stream, outputs: Mapping[str, np.ndarray]) -> None:
    """Write rows that a stream has just completed."""
    for name, rows in outputs.items():
        axis = stream.program.outputs[name].row_axis
        count = 1 if axis is None else rows.shape[axis]
        try:
            sinks[name].write(stream.rows_out[name] - count, rows)
        except BrokenPipeError:
            raise
        except (OSError, RuntimeError) as error:
            raise InputError(f"rows of '{name}' cannot be written: {first_line(error)}") from None


def _keep(place: Path, stream: Stream, sinks: Mapping[str, Sink]) -> None:
    for sink in sinks.values():
        sink.flush()
    write_bytes(place, stream.save())


def _kept(place: Path | None) -> bytes:
    """The state of an interrupted run. Raises InputError."""
    if place is None:
        raise InputError(f"{option('resume')} needs an output file, beside which the state is kept")
    if not place.exists():
        raise InputError(
            f"there is no state of an interrupted run; leave {option('resume')} out",
            where=str(place),
        )
    try:
        return place.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(place)) from None


def _way_on(place: Path | None, rows: int) -> str:
    return f"{rows:,} rows are done" + (f"; {option('resume')} goes on" if place else "")


@contextmanager
def _interrupts() -> Iterator[list[bool]]:
    """A block in which the first Ctrl-C is noted in the list, and the next one ends it."""
    noted = list[bool]()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(*_: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(True)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
