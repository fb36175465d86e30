"""Half-open row ranges, and the arithmetic of sliding windows.

Everything in csdfgen follows from one rule per operator: output rows [a, b) need
input rows `input_rows([a, b))` (docs/model.md; paper 002, section V-B).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Rows:
    """Half-open range [start, stop) of rows.

    >>> len(Rows(2, 5)), Rows(2, 5).clip(4), bool(Rows(3, 3))
    (3, Rows(start=2, stop=4), False)
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.stop, (self.start, self.stop)

    def __len__(self) -> int:
        return self.stop - self.start

    def __bool__(self) -> bool:
        return self.stop > self.start

    def clip(self, height: int) -> Rows:
        """The part of the range inside [0, height)."""
        return Rows(min(self.start, height), min(self.stop, height))

    def union(self, other: Rows) -> Rows:
        """The smallest range that contains both; an empty range adds nothing."""
        if not self:
            return other
        if not other:
            return self
        return Rows(min(self.start, other.start), max(self.stop, other.stop))


@dataclass(frozen=True, slots=True)
class Slab:
    """Rows of one image, or all rows of several images, which start with `image`.

    Rows are numbered through all images: row r of image i of a tensor of H rows is row i * H + r, so that rows that are
    needed, released, held and placed are all counted alike.
    """

    rows: Rows
    image: int = 0
    images: int = 1

    def span(self, height: int) -> Rows:
        """The slab's rows of a tensor of `height` rows per image, numbered through all images.

        >>> Slab(Rows(2, 5), image=1).span(8), Slab(Rows(0, 8), image=2, images=2).span(8)
        (Rows(start=10, stop=13), Rows(start=16, stop=32))
        """
        first = self.image * height
        if self.images > 1:
            return Rows(first, first + self.images * height)
        return Rows(first + self.rows.start, first + self.rows.stop)


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window along the rows: kernel, stride, dilation, padding above and below.

    Padding may be negative: the paper's crop (section III-A).
    """

    kernel: int
    stride: int = 1
    dilation: int = 1
    pad_top: int = 0
    pad_bottom: int = 0

    @property
    def extent(self) -> int:
        """Input rows spanned by one position of the window, holes included."""
        return (self.kernel - 1) * self.dilation + 1

    def input_rows(self, out: Rows, height: int) -> Rows:
        """Rows of an input of `height` rows that output rows `out` read (docs/model.md).

        >>> Window(3, pad_top=1, pad_bottom=1).input_rows(Rows(0, 1), 8)
        Rows(start=0, stop=2)
        """
        if not out:
            return Rows(0, 0)
        start = out.start * self.stride - self.pad_top
        stop = (out.stop - 1) * self.stride - self.pad_top + self.extent
        low = min(max(0, start), height)
        return Rows(low, max(low, min(height, stop)))


def slabs(height: int, rows: int | Sequence[int]) -> tuple[Rows, ...]:
    """`height` rows cut into slabs of `rows`; the last slab may be shorter.

    rows: of every slab, or of the first, the second, ...; the last number applies to all that follow.

    >>> slabs(5, 2)
    (Rows(start=0, stop=2), Rows(start=2, stop=4), Rows(start=4, stop=5))
    >>> slabs(32, (24, 8))
    (Rows(start=0, stop=24), Rows(start=24, stop=32))
    """
    if isinstance(rows, int):
        return tuple(Rows(a, min(a + rows, height)) for a in range(0, height, rows))
    *first, general = rows
    parts, start = [], 0
    for size in first:
        if start < height:
            parts.append(Rows(start, min(start + size, height)))
            start = parts[-1].stop
    return (
        *parts,
        *(Rows(start + part.start, start + part.stop) for part in slabs(height - start, general)),
    )


def needs(reads: Sequence[Rows], height: int) -> tuple[int, ...]:
    """need(i): input rows that must have arrived before phase i.

    Never decreases. The last phase needs all `height` rows, which keeps the graph consistent if no window reads the last rows
    (docs/model.md).

    >>> needs([Rows(1, 6), Rows(4, 9), Rows(7, 12), Rows(10, 15)], 16)
    (6, 9, 12, 16)
    """
    out: list[int] = []
    for rows in reads:
        out.append(max(rows.stop if rows else 0, out[-1] if out else 0))
    if out:
        out[-1] = height
    return tuple(out)


def releases(reads: Sequence[Rows], height: int) -> tuple[int, ...]:
    """release(i): rows [0, release(i)) are read by no phase after phase i.

    Never decreases and never passes need(i); the last phase releases everything.

    >>> releases([Rows(1, 6), Rows(4, 9), Rows(7, 12), Rows(10, 15)], 16)
    (4, 7, 10, 16)
    """
    need = needs(reads, height)
    out = [0] * len(reads)
    low = height
    for i in range(len(reads) - 1, -1, -1):
        out[i] = min(low, need[i])
        if reads[i]:
            low = min(low, reads[i].start)
    return tuple(out)


def differences(running: Iterable[int]) -> tuple[int, ...]:
    """First value and increments of a running count.

    >>> differences((6, 9, 12, 16))
    (6, 3, 3, 4)
    """
    out, last = [], 0
    for value in running:
        out.append(value - last)
        last = value
    return tuple(out)
