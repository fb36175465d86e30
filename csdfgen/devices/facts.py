"""What does the system report about the machine that is measured? Facts from /proc, /sys and tegrastats.

Sources: the kernel's documentation of /proc/cpuinfo, /proc/meminfo, /sys/devices/system/cpu,
/sys/class/thermal; NVIDIA's Jetson Linux developer guide for tegrastats. `root` is the root of the file system, or
of a recorded copy of one.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from csdfgen.devices.profile import Memory, Processor, parse_quantity
from csdfgen.limits import read_available_bytes, read_memory_bytes

NOT_TOLD = "not reported by the system"

_TEGRASTATS_SECONDS = 5.0
_BOARD_NAMES = (
    "proc/device-tree/model",
    "sys/firmware/devicetree/base/model",
    "sys/class/dmi/id/product_name",
)
_BOARD_VENDOR = "sys/class/dmi/id/sys_vendor"
_CPU_NAMES = ("model name", "Model", "Hardware", "CPU part")


def board_facts(root: Path = Path("/"), tegrastats_command: str = "tegrastats") -> dict[str, str]:
    """Board, processor, clocks and temperatures as text by name; `NOT_TOLD` for facts that are missing."""
    size, mode = read_memory_bytes(root), root / "etc/nvpmodel.status"
    found = {
        "board": _board(root), "cpu": cpu_name(root), "cores": str(core_count(root) or NOT_TOLD),
        "governor": _governors(root), "clock": _clocks(root), "caches": _caches(root),
        "memory": f"{size / 2**20:,.0f} MiB" if size else "", "temperature": _temperatures(root), "load": _load(root),
        "power mode": _read(mode) if mode.exists() else "", "tegrastats": tegrastats(tegrastats_command),
    }  # fmt: skip
    return {name: text or NOT_TOLD for name, text in found.items()}


def software_facts(threads: int) -> dict[str, str]:
    """Versions of the libraries that compute, and the number of threads that they may use."""
    from threadpoolctl import threadpool_info

    blas = sorted(
        {
            f"{lib['internal_api']} {lib['version']}"
            for lib in threadpool_info()
            if lib["user_api"] == "blas"
        }
    )
    return {
        "threads": str(threads),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": ", ".join(blas) or NOT_TOLD,
        "system": f"{platform.system()} {platform.machine()}",
    }


def machine(root: Path = Path("/")) -> tuple[Memory, Processor]:
    """Memory and cores as the system reports them; the memory that is available now is usable."""
    cores = core_count(root) or 1
    total = read_memory_bytes(root) or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cache = cache_bytes(root)
    return (
        Memory(
            total=parse_quantity(total / 2**20, "MiB", "system"),
            usable=parse_quantity(min(total, read_available_bytes(root)) / 2**20, "MiB", "system"),
            cache=parse_quantity(cache / 2**10, "KiB", "system") if cache else None,
        ),
        Processor(cores=parse_quantity(cores, "cores", "system")),
    )


# Files of the system ----------------------------------------------------------------------------


def _read(path: Path) -> str:
    """A small file of the system on one line; "" if it cannot be read."""
    try:
        return " ".join(
            path.read_bytes()[:65536].decode("utf-8", "replace").replace("\0", " ").split()
        )
    except OSError:
        return ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _board(root: Path) -> str:
    """The model in the device tree of a board (NVIDIA, Raspberry Pi), or the product name of a PC."""
    for name in _BOARD_NAMES:
        text = _read(root / name)
        if text:
            return f"{_read(root / _BOARD_VENDOR)} {text}".strip() if "dmi" in name else text
    return ""


def cpu_name(root: Path = Path("/")) -> str:
    """The name of the processor; "" if the system does not report it."""
    fields = dict(_fields(root / "proc/cpuinfo"))
    return next((fields[name] for name in _CPU_NAMES if fields.get(name)), "")


def _fields(path: Path) -> Iterator[tuple[str, str]]:
    for line in _lines(path):
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip()


def _cpus(root: Path) -> list[Path]:
    folder = root / "sys/devices/system/cpu"
    found = [
        path
        for path in folder.glob("cpu[0-9]*")
        if path.name[3:].isdigit() and _read(path / "online") != "0"
    ]
    return sorted(found, key=lambda path: int(path.name[3:]))


def core_count(root: Path = Path("/")) -> int:
    """Number of cores that are online; 0 if the system does not report it."""
    return len(_cpus(root)) or sum(
        name == "processor" for name, _ in _fields(root / "proc/cpuinfo")
    )


def _governors(root: Path) -> str:
    return ", ".join(
        sorted({text for cpu in _cpus(root) if (text := _read(cpu / "cpufreq/scaling_governor"))})
    )


def _clocks(root: Path) -> str:
    """The present clock of each core, and its highest."""
    found = []
    for cpu in _cpus(root):
        now, most = (
            _read(cpu / "cpufreq" / name) for name in ("scaling_cur_freq", "scaling_max_freq")
        )
        if now.isdigit():
            found.append(
                f"{cpu.name} {int(now) / 1000:.0f}"
                + (f" of {int(most) / 1000:.0f}" if most.isdigit() else "")
                + " MHz"
            )
    return ", ".join(found)


def _cache_entries(root: Path) -> Iterator[tuple[int, str, str]]:
    """(level, type, size as reported) of the caches of the first core."""
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level.isdigit() and size:
            yield int(level), kind, size


def _caches(root: Path) -> str:
    return ", ".join(f"L{level} {kind} {size}" for level, kind, size in _cache_entries(root))


def cache_bytes(root: Path = Path("/")) -> int:
    """Bytes of the second-level cache of the first core, or of the first-level one; 0 if the system does not report it."""
    near = [size for level, _, size in _cache_entries(root) if level <= 2]
    sizes = [re.fullmatch(r"(\d+)([KM])", size) for size in near]
    return max((int(m[1]) * {"K": 2**10, "M": 2**20}[m[2]] for m in sizes if m), default=0)


def _temperatures(root: Path) -> str:
    found = []
    for zone in sorted(
        (root / "sys/class/thermal").glob("thermal_zone[0-9]*"),
        key=lambda path: int(path.name[12:]),
    ):
        text = _read(zone / "temp")
        if re.fullmatch(r"-?\d+", text):
            found.append(f"{_read(zone / 'type') or zone.name} {int(text) / 1000:.1f} C")
    return ", ".join(found)


def _load(root: Path) -> str:
    """Mean number of processes that were ready to run, over 1, 5 and 15 minutes. With more of them than cores,
    measurements had to wait.
    """
    return " ".join(_read(root / "proc/loadavg").split()[:3])


def tegrastats(command: str = "tegrastats") -> str:
    """One line of NVIDIA's tegrastats (clocks, temperatures, power of a Jetson), "" if it is not installed."""
    path = shutil.which(command)
    if path is None:
        return ""
    process = subprocess.Popen(
        [path, "--interval", "200"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        text, _ = process.communicate(timeout=_TEGRASTATS_SECONDS / 5)
    except subprocess.TimeoutExpired:
        process.terminate()  # it runs until it is stopped
        try:
            text, _ = process.communicate(timeout=_TEGRASTATS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
    return " ".join(next(iter(text.splitlines()), "").split())
