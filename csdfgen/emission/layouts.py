"""The files by which a firmware's build system takes a network in, instead of those that build a program of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from csdfgen.backends.native.build import STANDARD
from csdfgen.backends.native.template import fill_template
from csdfgen.emission.project import OPTIMISED
from csdfgen.emission.source import TEXT, Unit
from csdfgen.emission.targets import Target
from csdfgen.errors import InputError, option

LAYOUTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "make": {},
        "cmake": {"CMakeLists.txt": "layout_cmake.txt"},
        "zephyr": {
            "CMakeLists.txt": "layout_zephyr.txt",
            "Kconfig": "layout_zephyr_kconfig.txt",
            "zephyr/module.yml": "layout_zephyr_module.yml",
        },
        "esp-idf": {
            "CMakeLists.txt": "layout_esp_idf.txt",
            "idf_component.yml": "layout_esp_idf.yml",
        },
        "platformio": {
            "library.json": "layout_platformio.json",
            "library.properties": "layout_arduino.properties",
        },
    }
)
"""Layout -> its files and their templates. `make`: a Makefile and a program on files."""

SOURCES = MappingProxyType({"platformio": "src"})
"""The folder of sources, where it is not the whole folder."""


def check_layout(name: str) -> None:
    """Raise InputError for an unknown layout."""
    if name not in LAYOUTS:
        raise InputError(f"{option('layout', name)} is not one of {', '.join(LAYOUTS)}")


def list_files(
    layout: str, unit: Unit, target: Target, files: Sequence[str]
) -> Iterator[tuple[str, Iterator[str]]]:
    """The path and the lines of each file of a layout. files: paths of the library's sources."""
    flags = [one for one in (*STANDARD[1:], *OPTIMISED) if not one.endswith("-sections")]
    words = {
        **unit.words,
        "files": files,
        "assembler": " ASM" if any(one.endswith(".S") for one in files) else "",
        "options": " ".join(flags),
        "level": target.level,
        "flags": ", ".join(f'"{one}"' for one in flags),
    }
    for path, template in LAYOUTS[layout].items():
        yield path, fill_template(TEXT / template, **words)
