"""What is emitted for which machine? Compiler, flags, and the vectors that its kernels use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.errors import InputError, option

__all__ = ["TARGETS", "Target", "target_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """compiler, archiver: names of programs. flags: of this machine. lanes: of vectors that it may have,
    None: any. hosted: whether programs are started by an operating system.
    """

    compiler: str
    archiver: str
    flags: tuple[str, ...]
    lanes: tuple[int, ...] | None
    hosted: bool = True


_THUMB = ("-mthumb", "-mfloat-abi=hard", "-DCSDF_SCALAR")
_ARM = ("arm-none-eabi-gcc", "arm-none-eabi-ar")

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "host": Target("cc", "ar", ("-march=native",), None),
        "aarch64": Target(
            "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar", ("-march=armv8-a",), (1, 4)
        ),
        "cortex-m7": Target(
            *_ARM, ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", *_THUMB), (1,), hosted=False
        ),
        "cortex-m55": Target(*_ARM, ("-mcpu=cortex-m55", *_THUMB), (1,), hosted=False),
        "generic": Target("cc", "ar", ("-DCSDF_SCALAR",), (1,)),
    }
)


def target_of(name: str) -> Target:
    """A target by name. Raises InputError."""
    if name not in TARGETS:
        raise InputError(f"{option('target', name)} is not one of {', '.join(TARGETS)}")
    return TARGETS[name]
