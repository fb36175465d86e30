"""How much may reading and planning one network take in total? What the machine has, asked before anything is made.

Sources: the Linux kernel's Documentation/filesystems/proc.rst (MemAvailable) and admin-guide/cgroup-v2.rst (memory.max).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from csdfgen.errors import CsdfgenError, ModelError, option


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that a network may have too much of. each: bytes that one takes at least, measured. most: on any machine.
    way: out of it. option: whose name ends `way`.
    """

    what: str
    each: int
    most: int
    way: str
    option: tuple[str, ...] = ()


OPERATIONS = Kind(
    "operations with functions, branches and loops written out", 2_000, 200_000,
    "export the model with fewer calls of functions, or shorter loops",
)  # fmt: skip
ROWS = Kind("rows of all tensors", 190, 1 << 28, "take smaller inputs", ("shapes",))
ELEMENTS = Kind("elements of all tensors", 0, 1 << 38, "take smaller inputs", ("shapes",))
WIDTH = Kind(
    "elements of the widest row of any tensor", 27, 1 << 31, "take smaller inputs", ("shapes",)
)
PHASES = Kind("phases", 1_000, 1_000_000, "use taller slabs", ("rows", "whole"))
STORED = Kind(
    "bytes of constants that are read", 1, 1 << 62, "leave them in the file", ("weights", "mapped")
)
FOLDED = Kind(
    "bytes of constants computed from constants", 1, 1 << 25,
    "export the model with its constants computed (torch: do_constant_folding, or onnx-simplifier)",
)  # fmt: skip
FOLDING = Kind(
    "multiply-accumulates that constants computed from constants take", 0, 1 << 31, FOLDED.way
)  # fmt: skip


class Budget:
    """What one network takes in total, by kind.

    >>> Budget().take(OPERATIONS, 300_000, "its graph")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    csdfgen.errors.ModelError: its graph: 300,000 operations with functions, branches ...
    """

    def __init__(self) -> None:
        self._taken: dict[Kind, int] = {}

    @cached_property
    def _available(self) -> int:
        """What the machine has: asked once, as totals are compared with it, and tensors are thousands."""
        return read_available_bytes()

    def taken(self, kind: Kind) -> int:
        """How many were asked for until now."""
        return self._taken.get(kind, 0)

    def take(
        self,
        kind: Kind,
        count: int,
        why: str,
        *,
        more: int = 0,
        error: type[CsdfgenError] = ModelError,
    ) -> None:
        """Note that so many more will be made. why: and by what. more: that are allowed beyond `kind.most`. Raises `error`
        if there are too many in total, or the machine has not the memory that they take.
        """
        total = self.taken(kind) + count
        needed, free = total * kind.each, 0
        if total > kind.most + more:
            limit = f"at most {kind.most + more:,} are supported"
        elif needed <= _LITTLE or needed <= (free := self._available):
            self._taken[kind] = total
            return
        else:
            limit = f"for which planning takes {needed:,} bytes of memory at least, {free:,} are available"
        way = f"{kind.way} ({option(*kind.option)})" if kind.option else kind.way
        raise error(f"{why}: {total:,} {kind.what} in total, {limit}; {way}")


_LITTLE = 1 << 26
"""Bytes that every machine has: the system is not asked."""


def read_available_bytes(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may still take: what the system has available, or less where a cgroup says so."""
    whole = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if hasattr(os, "sysconf")
        else 1 << 34
    )
    return max(
        0, min(read_memory_bytes(root, "MemAvailable") or whole, *_left_in_groups(root), whole)
    )


def read_memory_bytes(root: Path = Path("/"), name: str = "MemTotal") -> int:
    """A figure of /proc/meminfo in bytes; 0 if the system does not report it."""
    words = _words(root / "proc/meminfo")
    number = words.get(f"{name}:", "")
    return int(number) * 1024 if number.isdigit() else 0


def _left_in_groups(root: Path) -> Iterator[int]:
    """Bytes that each cgroup of this process, of version 2 or 1, leaves free; pages of files can be taken back."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, inner = (*line.split(":", 2), "", "")[:3]
        if controllers not in ("", "memory"):
            continue
        base = root / "sys/fs/cgroup" / controllers
        names = (
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else ("memory.max", "memory.current")
        )
        for folder in (path := base / inner.lstrip("/"), *path.parents):
            limit, used = (_text(folder / name).strip() for name in names)
            if limit.isdigit() and used.isdigit():
                stat = _words(folder / "memory.stat")
                cached = stat.get("total_inactive_file") or stat.get("inactive_file") or "0"
                yield int(limit) - int(used) + int(cached)
            if folder == base:
                break


def _words(path: Path) -> dict[str, str]:
    """The first word of each line of a file, and the second."""
    return {
        words[0]: words[1] for line in _text(path).splitlines() if len(words := line.split()) > 1
    }


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
