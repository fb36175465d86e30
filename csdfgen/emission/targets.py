"""The machines that C is emitted for: compiler, flags, and sizes of vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from csdfgen.errors import InputError, option
from csdfgen.model.options import DEFAULTS

STACK = 16384
"""Bytes of the stack of a machine without an operating system, a default of the linker script."""


@dataclass(frozen=True, slots=True)
class Board:
    """A machine without an operating system. machine: its name in qemu. memory: (name, first address, bytes) of the memory
    for code, of that for constants if it is another one, and of RAM. clock: cycles a second.
    """

    title: str
    machine: str
    memory: tuple[tuple[str, int, int], ...]
    clock: int
    stack: int = STACK


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that C is emitted for. compiler, archiver: names of programs. flags: of the compiler. lanes: possible numbers
    of lanes of a vector, None: any. board: of a machine without an operating system.
    """

    compiler: str
    archiver: str
    flags: tuple[str, ...]
    lanes: tuple[int, ...] | None
    board: Board | None = None

    @property
    def count(self) -> str:
        """Bytes that its plans weigh (`PlanOptions.count`): a board has constants in flash."""
        return "activations" if self.board else DEFAULTS.count

    @property
    def level(self) -> str:
        """How much the compiler optimizes. On boards -O3 makes half as much code again, and kernels no faster."""
        return "-O2" if self.board else "-O3"


_THUMB = ("-mthumb", "-mfloat-abi=hard", "-DCSDF_SCALAR")
_KIB = 1024
_AN500 = Board(
    "Arm MPS2+ with AN500",
    "mps2-an500",
    (("CODE", 0, 4096 * _KIB), ("RAM", 0x20000000, 4096 * _KIB)),
    25_000_000,
)
_AN547 = Board(
    "Arm MPS3 with AN547",
    "mps3-an547",
    (
        ("CODE", 0, 512 * _KIB),
        ("CONSTANTS", 0x21200000, 2048 * _KIB),
        ("RAM", 0x21000000, 2048 * _KIB),
    ),
    32_000_000,
)
_ARM = ("arm-none-eabi-gcc", "arm-none-eabi-ar")

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "host": Target("cc", "ar", ("-march=native",), None),
        "aarch64": Target(
            "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar", ("-march=armv8-a",), (1, 4)
        ),
        "cortex-m7": Target(*_ARM, ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", *_THUMB), (1,), _AN500),
        "cortex-m55": Target(*_ARM, ("-mcpu=cortex-m55", *_THUMB), (1,), _AN547),
        "generic": Target("cc", "ar", ("-DCSDF_SCALAR",), (1,)),
    }
)


def get_target(name: str) -> Target:
    """The target of this name. Raises InputError for an unknown one."""
    if name not in TARGETS:
        raise InputError(f"{option('target', name)} is not one of {', '.join(TARGETS)}")
    return TARGETS[name]
