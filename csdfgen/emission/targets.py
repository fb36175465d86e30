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
    """A machine without an operating system. emulator: a command that executes its code. memory: (name, first address of that
    emulator's, bytes of the board's) of the memory for code, of that for constants if it is another one, and of RAM. clock:
    cycles a second.
    """

    title: str
    emulator: str
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
        return "flash" if self.board else DEFAULTS.count

    @property
    def level(self) -> str:
        """How much the compiler optimizes. On boards -O3 makes half as much code again, and kernels no faster."""
        return "-O2" if self.board else "-O3"


_THUMB = ("-mthumb", "-mfloat-abi=hard", "-DCSDF_SCALAR")
_KIB, _MHZ = 1024, 1_000_000


def _board(
    title: str, emulator: str, code: int, flash: int, at: int, ram: int, mega_hertz: int
) -> Board:
    """A board with one flash. code, at: first addresses of flash and RAM. flash, ram: KiB."""
    memory = ("CODE", code, flash * _KIB), ("RAM", at, ram * _KIB)
    return Board(title, emulator, memory, mega_hertz * _MHZ)


# Figures of the vendors: Arm's application notes 386, 500, 505 and 547, STMicroelectronics' data sheets of STM32G0B1xE,
# STM32L4R5xI and STM32U575xI (RAM that is contiguous), Renesas' of RA8M1, Espressif's of ESP32-C3 (without its cache). MLPerf
# Tiny's reference board is the NUCLEO-L4R5ZI. qemu has the addresses, and the sizes of its M0 are options.
_G0B1 = _board(
    "ST NUCLEO-G0B1RE",
    f"qemu-system-arm -M microbit -global nrf51-soc.flash-size={512 * _KIB} -global nrf51-soc.sram-size={144 * _KIB}",
    *(0, 512, 0x20000000, 144, 64),
)
_L4R5 = _board("ST NUCLEO-L4R5ZI", "qemu-system-arm -M mps2-an386", 0, 2048, 0x20000000, 640, 120)
_AN500 = _board(
    "Arm MPS2+ with AN500", "qemu-system-arm -M mps2-an500", 0, 4096, 0x20000000, 4096, 25
)
_U575 = _board(
    "ST NUCLEO-U575ZI-Q",
    "qemu-system-arm -M mps2-an505",
    *(0x10000000, 2048, 0x38000000, 768, 160),
)
_C3 = _board(
    "Espressif ESP32-C3-DevKitM-1",
    "qemu-system-riscv32 -M virt -bios none",
    *(0x80000000, 4096, 0x80400000, 384, 160),
)


def _two_memories(title: str, constants: int, ram: int, mega_hertz: int) -> Board:
    """A board with code and constants in different memories, of 512 and so many KiB."""
    memory = ("CODE", 0, 512), ("CONSTANTS", 0x21200000, constants), ("RAM", 0x21000000, ram)
    sizes = tuple((name, at, size * _KIB) for name, at, size in memory)
    return Board(title, "qemu-system-arm -M mps3-an547", sizes, mega_hertz * _MHZ)


_AN547 = _two_memories("Arm MPS3 with AN547", 2048, 2048, 32)
_RA8M1 = _two_memories("Renesas EK-RA8M1", 2016 - 512, 896, 480)
_ARM = ("arm-none-eabi-gcc", "arm-none-eabi-ar")
_RISCV = ("riscv64-unknown-elf-gcc", "riscv64-unknown-elf-ar")


def _cortex(flags: str, board: Board) -> Target:
    """A Cortex-M with registers for floats."""
    return Target(*_ARM, (*flags.split(), *_THUMB), (1,), board)


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "host": Target("cc", "ar", ("-march=native",), None),
        "aarch64": Target(
            "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar", ("-march=armv8-a",), (1, 4)
        ),
        "cortex-m0plus": Target(
            *_ARM, ("-mcpu=cortex-m0plus", "-mthumb", "-DCSDF_SCALAR"), (1,), _G0B1
        ),
        "cortex-m4": _cortex("-mcpu=cortex-m4 -mfpu=fpv4-sp-d16", _L4R5),
        "cortex-m7": _cortex("-mcpu=cortex-m7 -mfpu=fpv5-sp-d16", _AN500),
        "cortex-m33": _cortex("-mcpu=cortex-m33 -mfpu=fpv5-sp-d16", _U575),
        "cortex-m55": _cortex("-mcpu=cortex-m55", _AN547),
        # compilers before gcc 13 do not have the name of the M85, which executes what an M55 does
        "cortex-m85": _cortex("-mcpu=cortex-m55", _RA8M1),
        "rv32imc": Target(
            *_RISCV,
            ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs", "-DCSDF_SCALAR"),
            (1,),
            _C3,
        ),
        "generic": Target("cc", "ar", ("-DCSDF_SCALAR",), (1,)),
    }
)


def get_target(name: str) -> Target:
    """The target of this name. Raises InputError for an unknown one."""
    if name not in TARGETS:
        raise InputError(f"{option('target', name)} is not one of {', '.join(TARGETS)}")
    return TARGETS[name]
