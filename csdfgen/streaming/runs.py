"""How does a stream run from one file to others? Piece by piece; now and then its state is kept beside the output, so that it
goes on where it was interrupted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from csdfgen.errors import CsdfgenError, InputError, first_line, option
from csdfgen.files import write_bytes
from csdfgen.model.describe import mebibytes
from csdfgen.streaming.columns import Cut, Strip
from csdfgen.streaming.sinks import Sink, Wanted, check_paths, open_sink
from csdfgen.streaming.sources import ALL, STDIN, MicrophoneSource, Source
from runtime.kept_state import pack_state, unpack_state
from runtime.resident import read_resident_bytes
from runtime.stream import Stream, StreamProgram

Progress = Callable[..., None]

_EVERY = 10.0
"""Seconds between two states that are kept."""

_PIECE = 1 << 20
"""Bytes of rows that are read at a time."""


_SHOWN = 0.1
"""Seconds between two figures on a bar."""


@dataclass
class Figures:
    """What a run was. rows: that it read, in each strip of columns, and by output wrote. seconds: without opening. longest:
    seconds of the longest push. resident_bytes: of the process at most.
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
    cut: Cut | None = None,
    resume: bool = False,
    progress: Progress,
) -> Figures:
    """Read all rows of a source, and write those of the outputs. cut: strips of columns, one after the other, of which the
    program is. Raises InputError; KeyboardInterrupt after Ctrl-C, when the state was kept.
    """
    place, strips = state_path(output), cut.strips if cut else (Strip(ALL, {}),)
    number, state, given = _kept(place, strips) if resume else (0, None, None)
    given = _read_earlier(program, source, strips) if given is None else given
    stream = program.open(state, given if state is None else {})
    outputs = cut.whole.outputs if cut else ()
    tensors = {**program.outputs, **{one.name: made for one in outputs if (made := one.tensor)}}
    totals = dict[str, int | None](program.count_rows(source.rows)) if source.rows else {}
    sinks = {
        one: open_sink(
            path,
            Wanted(tensors[one], totals.get(one), stream.rows_out[one] or number, source),
        )
        for one, path in check_paths(output, [*program.outputs]).items()
    }
    run = _Run(stream, source, strips, number, given, sinks, place, progress)
    with _interrupts() as run.interrupted:
        while run.number < len(strips):
            run.run_strip()
    for name, sink in sinks.items():
        with _writing(name):
            sink.close()
    if place:
        place.unlink(missing_ok=True)
    run.figures.seconds = perf_counter() - run.begun
    run.figures.resident_bytes = read_resident_bytes(most=True)
    return run.figures


def _read_earlier(
    program: StreamProgram, source: Source, strips: Sequence[Strip]
) -> dict[str, np.ndarray]:
    """What earlier passes over all rows find. Raises InputError for rows that are there once."""
    if program.plan.earlier and source.rows is None:
        raise InputError(
            f"{option('passes')} reads rows again, which standard input cannot; give a file"
        )
    if any(one.sums for one in program.plan.earlier):
        return _read_strips(program, source, strips)
    return program.read_earlier(lambda: _read_all(program, source, ALL))


def _read_all(program: StreamProgram, source: Source, columns: slice) -> Iterator[np.ndarray]:
    piece, axis, start = _rows_of_piece(program, source), source.tensor.row_axis or 0, 0
    while count := (rows := _read(source, start, piece, columns)).shape[axis]:
        yield rows
        start += count


def _read_strips(
    program: StreamProgram, source: Source, strips: Sequence[Strip]
) -> dict[str, np.ndarray]:
    """What earlier passes find of strips: of what is reduced, the pixels that each of them keeps."""
    found: dict[str, np.ndarray] = {}
    for plan in program.plan.earlier:
        one = StreamProgram(plan, kernels=program.kernels)
        sums = {
            name: StreamProgram(each, kernels=program.kernels).open()
            for name, each in plan.sums.items()
        }
        for strip in strips:
            stream = one.open(given=found)
            made = (stream.push(rows) for rows in _read_all(one, source, strip.read))
            for name, rows in (pair for some in made for pair in some.items()):
                _add_pixels(sums[name], rows, strip.kept[name][0])
            for name, rows in stream.finish().items():
                _add_pixels(sums[name], rows, strip.kept[name][0])
        for each in sums.values():
            found |= each.finish()
    return found


def _add_pixels(total: Stream, rows: np.ndarray, kept: slice) -> None:
    """Push what a strip keeps of rows, with other numbers of columns."""
    (tensor,) = total.program.inputs.values()
    stored = tensor.to_storage(rows)[:, kept]
    total.push(tensor.to_onnx(stored.reshape(-1, *tensor.row_shape)))


@dataclass
class _Run:
    """A run under way. number: of the strip that is being done. given: what earlier passes found."""

    stream: Stream
    source: Source
    strips: Sequence[Strip]
    number: int
    given: dict[str, np.ndarray]
    sinks: Mapping[str, Sink]
    place: Path | None
    progress: Progress
    figures: Figures = field(default_factory=Figures)
    interrupted: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name, self.tensor = next(iter(self.stream.program.inputs.items()))
        self.begun = self.kept = perf_counter()
        self.shown = 0.0

    def run_strip(self) -> None:
        """Run all rows of a strip, or what is left of them; the next one is to be done then."""
        piece = _rows_of_piece(self.stream.program, self.source)
        while self._run_piece(piece):
            pass
        self._write(self.stream.finish())
        self.figures.written = self.stream.rows_out
        self.stream.reset()
        self.stream.push(self.given)
        self.number += 1

    def _run_piece(self, piece: int) -> bool:
        """Push some rows; False if there are none."""
        at = self.stream.rows_in[self.name]
        if self.interrupted:
            if isinstance(self.source, MicrophoneSource):
                return False
            if self.place:
                self._keep(self.place)
            raise KeyboardInterrupt(self._describe_way_on(at))
        rows = _read(self.source, at, piece, self.strips[self.number].read)
        start = perf_counter()
        if not rows.shape[self.tensor.row_axis or 0]:
            return False
        self._write(self.stream.push(rows))
        done, now = self.stream.rows_in[self.name], perf_counter()
        self.figures.rows += done - at
        self.figures.longest = max(self.figures.longest, now - start)
        if self.place and now - self.kept > _EVERY:
            self._keep(self.place)
        if now - self.shown > _SHOWN:
            self._show(done, now)
        return True

    def _write(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Write rows that the stream has just completed."""
        for name, rows in outputs.items():
            axis = self.stream.program.outputs[name].row_axis
            count = 1 if axis is None else rows.shape[axis]
            kept, place = self.strips[self.number].kept.get(name, (ALL, ALL))
            if axis is not None and kept != ALL:
                rows = rows[(ALL,) * (axis + 1) + (kept,)]
            with _writing(name):
                self.sinks[name].write(self.stream.rows_out[name] - count, rows, place)

    def _keep(self, place: Path) -> None:
        for sink in self.sinks.values():
            sink.flush()
        facts = {"strip": self.number, "strips": _describe(self.strips), "given": [*self.given]}
        state = np.frombuffer(self.stream.save(), np.uint8)
        write_bytes(place, pack_state(facts, [state, *self.given.values()]))
        self.kept = perf_counter()

    def _show(self, done: int, now: float) -> None:
        rows = self.source.rows
        self.shown = now
        self.progress(
            f"{self.figures.rows / max(now - self.begun, 1e-9):,.0f} rows/s, at most "
            f"{1e3 * self.figures.longest:,.0f} ms for some, {mebibytes(read_resident_bytes())} resident",
            done + self.number * (rows or 0),
            rows and rows * len(self.strips),
        )

    def _describe_way_on(self, rows: int) -> str:
        strip = f" of strip {self.number + 1} of {len(self.strips)}" * (len(self.strips) > 1)
        return f"{rows:,} rows{strip} are done" + (
            f"; {option('resume')} goes on" if self.place else ""
        )


@contextmanager
def _writing(output: str) -> Iterator[None]:
    """A block in which a library writes, and raises what it likes. Raises InputError."""
    try:
        yield
    except (BrokenPipeError, CsdfgenError):
        raise
    except Exception as error:
        message = f"rows of '{output}' cannot be written: {first_line(error)}"
        raise InputError(message) from None


def _describe(strips: Sequence[Strip]) -> list[list[int]]:
    return [[one.read.start or 0, one.read.stop or 0] for one in strips]


def _rows_of_piece(program: StreamProgram, source: Source) -> int:
    """Rows that are read at a time: a slab of what may come slowly."""
    (tensor, *_) = program.inputs.values()
    slab = program.segments.fed[1][0]
    return slab if source.rows is None else max(slab, _PIECE // tensor.row_bytes)


def _read(source: Source, start: int, count: int, columns: slice) -> np.ndarray:
    """Rows of a source, whose library may find only now that a file is damaged. Raises InputError."""
    try:
        return source.read(start, count, columns)
    except CsdfgenError:
        raise
    except Exception as error:  # decoders raise what they like
        raise InputError(f"rows from {start:,} on cannot be read: {first_line(error)}") from None


def _kept(place: Path | None, strips: Sequence[Strip]) -> tuple[int, bytes, dict[str, np.ndarray]]:
    """The strip in which a run was interrupted, the state of its stream, and what earlier passes found. Raises InputError."""
    if place is None:
        raise InputError(f"{option('resume')} needs an output file, beside which the state is kept")
    if not place.exists():
        raise InputError(
            f"there is no state of an interrupted run; leave {option('resume')} out",
            where=str(place),
        )
    try:
        facts, (state, *given) = unpack_state(place.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(place)) from None
    if facts.get("strips") != _describe(strips):
        raise InputError("was kept with other strips of columns", where=str(place))
    return int(facts["strip"]), state.tobytes(), dict(zip(facts["given"], given, strict=True))


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
