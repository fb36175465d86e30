"""Wheels with kernels: `make wheel` writes the source distribution, the wheel for any platform, and a wheel for each machine.

    python -m tests.wheels [--out dist] [MACHINE ...]

The wheel for any platform is built from the source distribution. That of a machine is the same with the libraries of its levels
(`csdfgen.backends.native.prebuilt`), which zig compiles on any machine for an old glibc. Each library that this machine can run,
itself or in qemu, computes the layers of tests/native_driver.c first.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from csdfgen.backends.native import generate, prebuilt
from csdfgen.backends.native.build import SOURCES, STANDARD, Compiler, build, sources_digest
from csdfgen.backends.native.prebuilt import LEVELS, Level, library_name

ROOT = Path(__file__).resolve().parents[1]

GLIBC = "2.17"
"""The oldest that the libraries run with: that of manylinux2014, which is older than what numpy's wheels need."""

PLACE = "csdfgen/backends/native/prebuilt"

_ZIG = Compiler((sys.executable, "-m", "ziglang", "cc"))
_QEMU = {"aarch64": ("qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu")}


def flags_of(machine: str, level: Level) -> tuple[str, ...]:
    """What zig compiles a level with."""
    target = f"{machine}-linux-gnu.{GLIBC}"
    return *STANDARD, "-O3", "-s", "-target", target, f"-mcpu={level.target}"


def compiled(machine: str, level: Level) -> Path:
    """The library of a level, which is kept in build/."""
    return build(flags=flags_of(machine, level), compiler=_ZIG, folder=ROOT / "build" / "kernels")


def computes(machine: str, level: Level, library: Path) -> str:
    """What the layers of tests/native_driver.c say of a library, or why it was not run. Raises SystemExit if they are wrong."""
    start: tuple[str, ...] = ()
    if machine != platform.machine():
        start = _QEMU.get(machine, ("none",))
        if shutil.which(start[0]) is None or not Path(start[-1]).exists():
            return "not run: no emulator"
    elif not level.features <= prebuilt.features():
        return "not run: not on this processor"
    with tempfile.TemporaryDirectory() as folder:
        driver = Path(folder) / "driver"
        generate.write(Path(folder))
        files = [f"-I{folder}", f"-I{SOURCES}", ROOT / "tests" / "native_driver.c", library]
        flags = [*flags_of(machine, level), f"-Wl,-rpath,{library.parent}", *files, "-lm"]
        code, _, said = _ZIG.run([*flags, "-o", driver])
        done = (
            subprocess.run([*start, driver], capture_output=True, text=True) if not code else None
        )
    if done is None or done.returncode:
        raise SystemExit(f"{level.name} of {machine} fails: {said or (done and done.stdout)}")
    return done.stdout.strip()


def platform_wheel(plain: Path, tag: str, libraries: Mapping[str, Path], folder: Path) -> Path:
    """The wheel for any platform, with libraries: file name -> file. tag: of the platform."""
    name, version, *_ = plain.stem.split("-")
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(plain) as old:
        files = {one.filename: old.read(one) for one in old.infolist()}
    files |= {f"{PLACE}/{name}": path.read_bytes() for name, path in libraries.items()}
    head = files[f"{about}/WHEEL"].decode().replace("Purelib: true", "Purelib: false")
    tags = "\n".join(f"Tag: py3-none-{one}" for one in tag.split("."))
    files[f"{about}/WHEEL"] = head.replace("Tag: py3-none-any", tags).encode()
    record = f"{about}/RECORD"
    del files[record]
    lines = [f"{path},{_hashed(data)},{len(data)}\n" for path, data in files.items()]
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    made = folder / f"{name}-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for path, data in files.items():
            new.writestr(_entry(path), data)
    return made


def _hashed(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


def _entry(path: str) -> zipfile.ZipInfo:
    """A file that anybody may read, of no date: the same files make the same wheel."""
    found = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    found.external_attr, found.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
    return found


def _wheel_of(machine: str, plain: Path, folder: Path) -> Path:
    """Compile the levels of a machine, try them, and pack them."""
    libraries = {}
    for level in LEVELS[machine]:
        library = compiled(machine, level)
        print(
            f"{machine} {level.name}: {library.stat().st_size:,} bytes; {computes(machine, level, library)}",
            flush=True,
        )
        libraries[library_name(level, sources_digest(), library)] = library
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}.manylinux2014_{machine}"
    return platform_wheel(plain, tag, libraries, folder)


def _run(*module: str | Path) -> None:
    subprocess.run([sys.executable, "-m", *module], cwd=ROOT, check=True)


def main(arguments: Iterable[str] | None = None) -> None:
    """Write everything into a folder, and have it checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machines", nargs="*", default=[*LEVELS])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    asked = parser.parse_args(None if arguments is None else [*arguments])
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _run("build", "--no-isolation", "--outdir", folder, ".")
        (plain,), (source,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
        made = [_wheel_of(machine, plain, asked.out) for machine in asked.machines]
        made += [Path(shutil.copy(one, asked.out)) for one in (plain, source)]
    _run("twine", "check", "--strict", *made)
    for wheel in made[: len(asked.machines)]:
        _run("auditwheel", "show", wheel)
    for one in made:
        print(f"{one}: {one.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
