"""Which library of kernels in the wheel is the best that this processor runs?

A wheel for a platform has one for each level of instruction sets; `make wheel` compiles them. Wheels for any platform and
checkouts have none: kernels are then compiled when they are first needed.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from csdfgen.files import file_digest

FOLDER = Path(__file__).parent / "prebuilt"
"""Where a wheel has its libraries."""

_DIGEST = "[0-9a-f]" * 16
_CPUINFO = Path("/proc/cpuinfo")

PAIRS = "avx512_bf16"
"""The word for products of pairs of bfloat16."""

_SLOW_PAIRS = {PAIRS, "avx512_fp16", "GenuineIntel"}
"""What is said of a processor of which `has_slow_pairs`."""


@dataclass(frozen=True, slots=True)
class Level:
    """An instruction set. target: the processor as zig names it. features: words of /proc/cpuinfo that it needs."""

    name: str
    target: str
    features: frozenset[str]


def _level(name: str, target: str, features: str = "") -> Level:
    return Level(name, target, frozenset(features.split()))


_V3 = "abm avx2 bmi1 bmi2 f16c fma movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_DOTS = "asimddp asimdhp fphp"

LEVELS = {
    "x86_64": (
        _level("avx512-bf16", "x86_64_v4+avx512vnni+avx512bf16", f"{_V4} avx512_vnni avx512_bf16"),
        _level("avx512-vnni", "x86_64_v4+avx512vnni", f"{_V4} avx512_vnni"),
        _level("avx512", "x86_64_v4", _V4),
        _level("avx2-vnni", "x86_64_v3+avxvnni", f"{_V3} avx_vnni"),
        _level("avx2", "x86_64_v3", _V3),
        _level("x86-64", "x86_64"),
    ),
    "aarch64": (
        _level(
            "neon-bf16", "generic+dotprod+fullfp16+fp16fml+bf16+i8mm", f"{_DOTS} asimdfhm bf16 i8mm"
        ),
        _level("neon-dot", "generic+dotprod+fullfp16", _DOTS),
        _level("neon", "generic"),
    ),
}
"""Machine -> its levels, the best first."""


def library_name(level: Level, sources: str, library: Path) -> str:
    """The name of a library in a wheel: its level, the digest of its sources (`build.sources_digest`), and its content."""
    return f"csdf-{level.name}-{sources}-{file_digest(library)[:16]}.so"


def list_suitable_libraries() -> Iterator[tuple[Level, str, Path]]:
    """The libraries that are whole and that this processor runs, the best first, with the digests of their sources."""
    if not FOLDER.is_dir():
        return
    known = features()
    for level in LEVELS.get(platform.machine(), ()):
        for path in FOLDER.glob(f"csdf-{level.name}-{_DIGEST}-{_DIGEST}.so"):
            sources = path.stem.split("-")[-2]
            if level.features <= known and _is_whole(level, sources, path):
                yield level, sources, path


def _is_whole(level: Level, sources: str, path: Path) -> bool:
    """Whether a library can be read, and is as it was packed."""
    with suppress(OSError):
        return path.name == library_name(level, sources, path)
    return False


def features() -> set[str]:
    """What the system says that the processor has, but `PAIRS` where `has_slow_pairs`."""
    words = _words()
    return words - {PAIRS} if words >= _SLOW_PAIRS else words


def has_slow_pairs() -> bool:
    """Whether the processor's products of pairs take longer than those of widened values, which have the same bits. Intel's
    with tiles (AMX, even where a virtual machine hides these) start a VDPBF16PS every other cycle, and two multiply-adds
    in every one: measured on Emerald Rapids, 1.3 against 5.3 thousand million a second.
    """
    return _words() >= _SLOW_PAIRS


def _words() -> set[str]:
    """What the system says of the processor: its vendor, and what it has."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return set()
    found: dict[str, list[str]] = {}
    for line in lines:
        name, _, words = line.partition(":")
        found.setdefault(name.strip(), words.split())
    told = (found.get(name, []) for name in ("vendor_id", "flags", "Features"))
    return {word for words in told for word in words}
