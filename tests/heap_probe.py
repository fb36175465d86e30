"""What does the hook of benchmarks/heap.py see? Allocations of known size, one way after another;
`tests/unit/test_bench_memory.py` runs it with the hook preloaded.
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.heap import counted

SIZE = 3_000_000

Pointer, Size = ctypes.c_void_p, ctypes.c_size_t


def _c() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.malloc.restype = library.calloc.restype = library.realloc.restype = Pointer
    library.memalign.restype = library.aligned_alloc.restype = library.mmap.restype = Pointer
    return library


C = _c()


def _posix(size: int) -> ctypes.c_void_p:
    block = Pointer()
    assert C.posix_memalign(ctypes.byref(block), Size(256), Size(size)) == 0
    assert block.value is not None and block.value % 256 == 0
    return block


def _freed(block: int | ctypes.c_void_p) -> None:
    C.free(Pointer(block) if isinstance(block, int) else block)


def _grown() -> None:
    """A block of 1,000 bytes that grows to SIZE and shrinks again."""
    block = C.realloc(Pointer(C.malloc(Size(1000))), Size(SIZE))
    _freed(C.realloc(Pointer(block), Size(10)))


def _new() -> None:
    """C++'s operator new and delete, by the names that 64-bit systems give them."""
    new, delete = _operators()
    delete(Pointer(new(Size(SIZE))))


@functools.cache
def _operators() -> tuple[Any, Any]:
    """Loaded once: what loading leaves behind would be freed while the next call is counted."""
    library = ctypes.CDLL("libstdc++.so.6")
    library._Znwm.restype = Pointer
    return library._Znwm, library._ZdlPv


def _halved() -> None:
    """A mapping that is given back in two parts."""
    half = mmap.PAGESIZE * (SIZE // mmap.PAGESIZE // 2 + 1)
    read, write, private, anonymous = 1, 2, mmap.MAP_PRIVATE, mmap.MAP_ANONYMOUS
    start = C.mmap(None, Size(2 * half), read | write, private | anonymous, -1, Size(0))
    assert C.munmap(Pointer(start + half), Size(half)) == 0
    assert C.munmap(Pointer(start), Size(half)) == 0


def _one_after_another() -> None:
    for _ in range(3):
        np.empty(SIZE, np.uint8)


WAYS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "numpy": lambda: np.empty(SIZE, np.uint8),
    "python": lambda: bytearray(SIZE),
    "small objects": lambda: [object() for _ in range(SIZE // 24)],
    "calloc": lambda: _freed(C.calloc(Size(SIZE // 8), Size(8))),
    "realloc": _grown,
    "posix_memalign": lambda: _freed(_posix(SIZE)),
    "aligned_alloc": lambda: _freed(C.aligned_alloc(Size(64), Size(SIZE))),
    "memalign": lambda: _freed(C.memalign(Size(4096), Size(SIZE))),
    "new": _new,
    "mmap": _halved,
    "one after another": _one_after_another,
}


def main() -> None:
    found = {}
    for name, way in WAYS.items():
        way()  # what a first call makes for ever is not the allocation's
        _, heap = counted(_forgetting(way))
        found[name] = {"most": heap.most, "after": heap.after}
    print(json.dumps(found))


def _forgetting(way: Callable[[], Any]) -> Callable[[], None]:
    def call() -> None:
        way()

    return call


if __name__ == "__main__":
    main()
