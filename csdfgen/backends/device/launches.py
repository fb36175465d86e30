"""Which instructions are one launch? Those of one kernel that touch no bytes that another of them writes.

An instruction is computed behind all others before it that write what it reads or writes, or read what it writes. How many
launches that is at least is its level. Instructions of one level and one kernel are a launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from csdfgen.backends.device.loops import Span

__all__ = ["levels"]

_GRAIN = 16
"""Bytes that dependences are looked up by."""


def levels(
    size: int, touched: Iterable[tuple[Sequence[Span], Sequence[Span], Hashable]]
) -> list[list[int]]:
    """Numbers of instructions by launch. size: bytes of memory. touched: what each reads and writes of it, as offsets, and
    what those of one launch have in common.
    """
    blocks = -(-size // _GRAIN) + 1
    written, read = np.zeros(blocks, np.int32), np.zeros(blocks, np.int32)
    found: dict[tuple[int, Hashable], list[int]] = {}
    for number, (reads, writes, kernel) in enumerate(touched):
        ins = [slice(max(0, low) // _GRAIN, -(-min(high, size) // _GRAIN)) for low, high in reads]
        outs = [slice(max(0, low) // _GRAIN, -(-min(high, size) // _GRAIN)) for low, high in writes]
        level = 1
        for part in ins:
            level = max(level, 1 + int(written[part].max(initial=0)))
        for part in outs:
            level = max(level, 1 + int(written[part].max(initial=0)))
            level = max(level, 1 + int(read[part].max(initial=0)))
        for part in ins:
            np.maximum(read[part], level, out=read[part])
        for part in outs:
            written[part] = level
        found.setdefault((level, kernel), []).append(number)
    return [found[key] for key in sorted(found, key=lambda key: (key[0], found[key][0]))]
