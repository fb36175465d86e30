"""Folders for the build systems of firmware: built where the tools are, or by stand-ins of the functions that they call."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from csdfgen.emission.emit import Emitted, emit
from csdfgen.emission.layouts import LAYOUTS
from tests.board_networks import absent, plan_of
from tests.command import Call, refused
from tests.emitted import run
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

_MAIN = """\
#include "small.h"

static small_t net;
static float image[SMALL_X_SIZE], scores[SMALL_SCORES_SIZE + 1];

int main()
{
    scores[SMALL_SCORES_SIZE] = 3.0f;
    small_run_in(&net, image, scores);
    return scores[0] == scores[0] && scores[SMALL_SCORES_SIZE] == 3.0f ? 0 : 1;
}
"""

_ZEPHYR = """\
set(CONFIG_CSDFGEN_SMALL y)
macro(zephyr_library_named name)
  add_library(${name} STATIC)
endmacro()
macro(zephyr_library_sources)
  target_sources(csdfgen_small PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(csdfgen_small PRIVATE ${ARGN})
endmacro()
macro(zephyr_include_directories)
  target_include_directories(csdfgen_small PUBLIC ${ARGN})
endmacro()
add_subdirectory(c)
add_library(small INTERFACE)
target_link_libraries(small INTERFACE csdfgen_small m)
"""

_ESP_IDF = """\
function(idf_component_register)
  cmake_parse_arguments(ONE "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
  set(COMPONENT_LIB small PARENT_SCOPE)
  add_library(small STATIC ${ONE_SRCS})
  target_include_directories(small PUBLIC ${ONE_INCLUDE_DIRS})
  target_link_libraries(small PUBLIC m)
endfunction()
add_subdirectory(c)
"""

_TAKEN = {
    "cmake": "add_subdirectory(c)\n",
    "installed": "find_package(small REQUIRED)\n",
    "zephyr": _ZEPHYR,
    "esp-idf": _ESP_IDF,
    "platformio": "file(GLOB_RECURSE sources c/src/*.c)\nadd_library(small ${sources})\n"
    "target_include_directories(small PUBLIC c/src)\ntarget_link_libraries(small PUBLIC m)\n",
}
"""How a program that is built by CMake takes in each layout."""


def emitted(layout: str, folder: Path) -> Emitted:
    """A folder, without optimization, to have it sooner."""
    made = emit(plan_of("residual"), "small", folder, target="generic", layout=layout)
    for path in folder.rglob("CMakeLists.txt"):
        path.write_text(path.read_text().replace("-O3", "-O0"))
    return made


@pytest.mark.parametrize("way", _TAKEN)
def test_a_program_in_cplusplus_takes_a_layout(way: str, tmp_path: Path) -> None:
    """All sources compile and link from where they are, and the header is C++ too."""
    absent("cmake", "c++")
    emitted("cmake" if way == "installed" else way, tmp_path / "c")
    more = []
    if way == "installed":
        build = ["-S", "c", "-B", "built", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}"]
        run("cmake", *build, folder=tmp_path)
        run("cmake", "--build", "built", "-j2", "--target", "install", folder=tmp_path)
        more = [f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}"]
    target = "small" if way != "installed" else "small::small"
    (tmp_path / "main.cpp").write_text(_MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(firmware C CXX)\n{_TAKEN[way]}"
        f"add_executable(firmware main.cpp)\ntarget_link_libraries(firmware {target})\n"
    )
    run("cmake", "-S", ".", "-B", "b", *more, folder=tmp_path)
    run("cmake", "--build", "b", "-j2", folder=tmp_path)
    run("b/firmware", folder=tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_files_of_a_layout(layout: str, tmp_path: Path) -> None:
    """Those that its build system wants, no programs of ours; what it wants of them."""
    files = {*map(str, map(Path, emitted(layout, tmp_path / "c").files))}
    assert {*LAYOUTS[layout]} <= files
    assert layout == "make" or not files & {"main.c", "Makefile", "board.c"}
    if layout == "platformio":
        manifest = json.loads((tmp_path / "c/library.json").read_text())
        assert {"name", "version"} <= manifest.keys() and (
            tmp_path / "c/src" / manifest["headers"]
        ).exists()
        lines = (tmp_path / "c/library.properties").read_text().splitlines()
        fields = dict(line.split("=", 1) for line in lines)
        wanted = "name version author maintainer sentence paragraph category url architectures"
        assert {*wanted.split()} <= fields.keys()
        assert (tmp_path / "c/src" / fields["includes"]).exists()
    if layout in ("zephyr", "esp-idf"):
        yaml = pytest.importorskip("yaml")
        place = "zephyr/module.yml" if layout == "zephyr" else "idf_component.yml"
        facts = yaml.safe_load((tmp_path / "c" / place).read_text())
        if layout == "zephyr":
            assert facts["name"] == "small" and facts["build"].keys() == {"cmake", "kconfig"}
            assert (tmp_path / "c" / facts["build"]["cmake"] / "CMakeLists.txt").exists()
            assert (
                (tmp_path / "c" / facts["build"]["kconfig"])
                .read_text()
                .startswith("config CSDFGEN_SMALL\n")
            )
        else:
            assert facts.keys() == {"version", "description", "dependencies"}


def test_a_layout_that_is_none(call: Call) -> None:
    onnx.save(residual_classifier(), "net.onnx")
    line = refused(call("emit-c", "net.onnx", "-o", "out", "--layout", "bazel"))
    assert line == "--layout bazel is not one of make, cmake, zephyr, esp-idf, platformio"
    assert not Path("out").exists()
