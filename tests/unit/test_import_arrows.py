"""Folders stand one on another like rooms of a house, and the light packages stay light; what numpy sorts
is in one order on all processors.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

from csdfgen.backends import FOLDERS
from tests.command import python

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("csdfgen", "sdf3_bridge", "schedules", "runtime", "zoo_models")

ROOMS = {
    "csdfgen": "top",  # what stands in the package itself: __init__, __main__, api
    "csdfgen.errors": "base",
    "csdfgen.files": "base",
    "csdfgen.stopping": "base",
    "csdfgen.limits": "base",
    "csdfgen.backends": "base",  # the names of backends alone
    "csdfgen.backends.__init__": "base",
    "csdfgen.backends.registry": "backends",
    "csdfgen.cache": "cache",
    "csdfgen.cli": "top",
}
"""Module or folder -> room, where that is not the folder's name."""

STAGES = {"base", "model", "ops", "dataflow", "phases"}
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "zoo_models": set(),
    "model": {"base"},
    "ops": {"base", "model"},
    "reading": {"base", "model", "ops", "zoo_models"},
    "rewriting": {"base", "model", "ops"},
    "dataflow": {"base", "model"},
    "schedules": {"base", "model", "dataflow"},
    "sdf3_bridge": {"base", "dataflow", "schedules"},
    "phases": STAGES - {"phases"},
    "cache": {"base", "model"},
    "program": {"model", "ops"},
    "planning": STAGES | {"rewriting", "program", "schedules"},
    "charts": {"base", "dataflow", "phases", "planning", "schedules"},
    "numpy": {"base", "model", "ops", "program"},
    "native": {
        "base",
        "model",
        "cache",
        "ops",
        "program",
        "numpy",
        "schedules",
    },  # a faster minimum cut
    "device": {"base", "model", "cache", "program", "numpy", "native"},
    "opencl": {"base", "program", "device"},
    "cuda": {"base", "program", "device"},
    "backends": {"base", "model", "program", "numpy", "native", "opencl", "cuda"},
    "lowering": {"base", "model", "cache", "phases", "program", "planning"},
    "emission": {"base", "model", "ops", "program", "backends", "native", "lowering", "planning"},
    "runtime": STAGES | {"reading", "program", "backends", "planning", "lowering", "emission"},
    "devices": STAGES - {"dataflow"}
    | {"cache", "reading", "backends", "emission", "planning", "runtime"},
    "tuning": {"base", "model", "phases", "program", "backends", "planning", "runtime"}
    | {"devices", "rewriting"},
    "goals": {"base", "model", "dataflow", "phases", "program", "backends", "planning", "schedules"}
    | {"devices", "emission", "reading", "tuning"},
    "precision": STAGES - {"dataflow", "phases"}
    | {"reading", "backends", "planning", "runtime", "devices", "goals"},
    "serving": {"base", "model", "reading", "rewriting", "program", "backends", "planning", "goals"}
    | {"runtime"},
    "streaming": STAGES - {"dataflow"} | {"runtime"},
    "sweeps": {"base", "model", "reading", "backends", "planning", "charts", "devices"}
    | {"goals", "precision", "runtime"},
    "pages": {"base", "model", "dataflow", "phases", "charts", "planning", "runtime", "devices"},
    "paper": STAGES
    | {"reading", "rewriting", "backends", "planning", "goals", "precision", "schedules", "runtime"}
    | {"devices", "program", "native", "device", "opencl", "serving", "tuning", "zoo_models"},
}
"""Room -> rooms that it imports; a room stands below all those that import it. Only the top, which
nobody imports, may import everything.
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the project with its dotted name; a package is PACKAGE.__init__."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room(module: str) -> str:
    package, *inner = module.split(".")
    if package != "csdfgen":
        return package
    if not inner or not (ROOT / package / inner[0]).is_dir():
        return ROOMS.get(module, ROOMS[package])
    if module in ROOMS:
        return ROOMS[module]
    if inner[0] == "backends" and (ROOT / package / "/".join(inner[:2])).is_dir():
        return inner[-1] if len(inner) == 1 else inner[1]  # numpy, native
    return ROOMS.get(f"{package}.{inner[0]}", inner[0])


def imported(path: Path) -> Iterator[str]:
    """Modules of the project that a file imports, wherever the import stands, or names in a string, from which they are
    imported when they are needed. The names of backends are in a file of their own, and the registry imports them.
    """
    if path == ROOT / "csdfgen/backends/registry.py":
        yield from FOLDERS.values()
    names_backends = path == ROOT / "csdfgen/backends/__init__.py"
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"\w+(\.\w+)+", node.value) and is_module(node.value)
            if named and not names_backends:
                yield node.value
            continue
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module is not None
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if is_module(name) else node.module for name in inner]
        else:
            assert not isinstance(node, ast.ImportFrom), (
                f"{path}: relative import in line {node.lineno}"
            )
            continue
        yield from (name for name in found if name.split(".")[0] in PACKAGES)


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def arrows() -> dict[tuple[str, str], str]:
    """Every (room, room that it imports), with one import that makes it so."""
    return {
        (room(module), room(name)): f"{module} imports {name}"
        for module, path in modules()
        for name in imported(path)
        if room(module) != room(name)
    }


def test_every_folder_is_a_room() -> None:
    assert {room(module) for module, _ in modules()} == {*ARROWS, "top"}


@pytest.mark.networks
def test_imports_are_those_of_the_table() -> None:
    """An import that the table does not have, or a line of the table that nothing imports."""
    real = {arrow: said for arrow, said in arrows().items() if arrow[0] != "top"}
    wanted = {(low, high) for low, targets in ARROWS.items() for high in targets}
    wrong = [f"{a} -> {b}: {real[a, b]}" for a, b in sorted(real.keys() - wanted)]
    unused = [f"{a} -> {b}: nothing imports it" for a, b in sorted(wanted - real.keys())]
    assert not wrong + unused, "\n".join(wrong + unused)


def test_what_is_private_is_imported_in_its_own_folder_alone() -> None:
    """A module or a name that begins with an underscore."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {node.module}.{alias.name}"
        for _, path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES
        for alias in node.names
        for home, _, private in [f"{node.module}.{alias.name}".partition("._")]
        if private
        and not private.startswith("_")
        and path.parent != ROOT.joinpath(*home.split("."))
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_stand_one_on_another() -> None:
    table = networkx.DiGraph([(a, b) for a, targets in ARROWS.items() for b in targets])
    assert networkx.is_directed_acyclic_graph(table)
    real = networkx.DiGraph(list(arrows()))
    circles = [sorted(one) for one in networkx.strongly_connected_components(real) if len(one) > 1]
    assert not circles
    assert networkx.is_directed_acyclic_graph(real)


def test_planning_needs_no_runtime() -> None:
    """Neither backends' memory nor the executor: what is below planning is all that a plan takes."""
    real = networkx.DiGraph(list(arrows()))
    assert networkx.descendants(real, "planning").isdisjoint({"runtime", "lowering", "top"})


@pytest.mark.parametrize("name", ["program", "planning", "lowering"])
def test_a_room_loads_no_more_than_the_table_says(name: str) -> None:
    """Whatever imports at run time: its modules are imported in a process of their own."""
    own = [module for module, _ in modules() if room(module) == name]
    imports = "\n".join(f"import {module.removesuffix('.__init__')}" for module in own)
    code = f"import sys\n{imports}\nprint(*sys.modules)"
    loaded = python("-c", code, check=True).stdout.split()
    found = {room(module) for module in loaded if module.split(".")[0] in PACKAGES}
    table = networkx.DiGraph([(a, b) for a, targets in ARROWS.items() for b in targets])
    assert found <= {name, "top", *networkx.descendants(table, name)}
    top = [module for module in loaded if module.startswith("csdfgen") and room(module) == "top"]
    assert top == ["csdfgen"]


@pytest.mark.parametrize(
    "package",
    ["schedules", "sdf3_bridge", "csdfgen", "csdfgen.dataflow.graph_json", "csdfgen.dataflow.dot"],
)
def test_light_packages_load_neither_onnx_nor_numpy(package: str) -> None:
    code = f"import {package}, sys; print(*sorted({{'onnx', 'onnxruntime', 'numpy', 'scipy', 'networkx'}} & set(sys.modules)))"
    result = python("-c", code, check=True)
    assert result.stdout.split() == []


def test_planning_and_inputs_load_no_masked_arrays() -> None:
    """Where numpy.unique is asked for no indices, it loads numpy.ma: 3 MiB that nothing else needs."""
    code = (
        "import csdfgen, sys; from runtime.images import random_inputs; network = csdfgen.load('zoo:lenet5'); "
        "csdfgen.compile(csdfgen.plan(network))(random_inputs(network, 0, (-1.0, 1.0))); print('numpy.ma' in sys.modules)"
    )
    assert python("-c", code, check=True).stdout.split() == ["False"]


def test_equal_keys_keep_their_order() -> None:
    """numpy's argsort leaves them as the processor's vectors come by them, unless it is told to be stable."""
    calls = {
        f"{path.relative_to(ROOT)}:{node.lineno}": node
        for _, path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("argsort", "argpartition")
    }
    assert calls
    asked = ("kind", "stable")
    stable = {
        place
        for place, call in calls.items()
        for word in call.keywords
        if (word.arg, getattr(word.value, "value", None)) == asked
    }
    assert calls.keys() == stable


NAMES_OF_OTHERS = {
    "csdfgen.cli.analyze": "the engine that analyses graphs",
    "csdfgen.cli.analyze_graph": "the same",
    "csdfgen.cli.report": "versions of libraries",
    "csdfgen.cli.doctor": "the same",
    "csdfgen.devices.facts": "the same",
}
"""Modules in which a word is the name of a backend and means something else."""


def test_no_backend_is_asked_for_by_name() -> None:
    """The registry and traits say which backend computes; only its own folder knows what it is called."""
    named = {
        module: (node.value, node.lineno)
        for module, path in modules()
        if not module.startswith("csdfgen.backends") and module not in NAMES_OF_OTHERS
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in FOLDERS
    }
    assert not named
