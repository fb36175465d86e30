"""Imports point one way, and the light packages stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("csdfgen", "sdf3_bridge", "schedules", "runtime", "zoo_models")

GROUPS = {
    "csdfgen.errors": "base",
    "csdfgen.files": "base",
    "csdfgen.dataflow.origin": "base",
    "csdfgen.model.describe": "base",
    "csdfgen.model.frozen": "base",
    "csdfgen.model.rows": "rows",
    "csdfgen.dataflow.graph": "graph",
    "csdfgen.dataflow.graph_json": "graph",
    "csdfgen.dataflow.transform": "graph",
    "csdfgen.dataflow.dot": "graph",
    "csdfgen.model.network": "network",
    "csdfgen.ops": "ops",
    "csdfgen": "stages",  # loader, fuse, conversion and their helpers: whatever is not named here
    "csdfgen.planning.plan": "planning",
    "csdfgen.planning.checker": "planning",
    "csdfgen.planning.capacities": "planning",
    "csdfgen.planning.planner": "pipeline",
    "csdfgen.planning.plan_file": "pipeline",
    "csdfgen.planning.saved": "pipeline",
    "csdfgen.devices": "pipeline",
    "csdfgen.charts": "charts",
    "csdfgen.__init__": "top",
    "csdfgen.__main__": "top",
    "csdfgen.api": "top",
    "csdfgen.cli": "top",
    "csdfgen.demo": "top",
    "csdfgen.cli.diagnosis": "top",
    "csdfgen.paper": "top",
    "sdf3_bridge": "sdf3_bridge",
    "schedules": "schedules",
    "runtime": "runtime",
    "zoo_models": "zoo_models",
}
"""Module or package -> group; the longest name that fits counts."""

MODEL = {"base", "rows", "graph", "network", "ops"}
ARROWS: dict[str, set[str]] = {
    "base": set(),
    "rows": {"base"},
    "graph": {"base"},
    "network": {"base", "rows"},
    "ops": {"base", "rows", "network"},
    "stages": {*MODEL, "zoo_models"},
    "sdf3_bridge": {"base", "graph", "schedules"},
    "schedules": {"base", "graph"},
    "charts": {"base", "rows", "graph", "schedules"},
    "planning": {*MODEL, "stages", "schedules"},
    "runtime": {*MODEL, "stages", "schedules", "planning"},
    "pipeline": {*MODEL, "stages", "schedules", "planning", "runtime"},
    "zoo_models": set(),
    "top": set(GROUPS.values()),
}
"""Group -> groups it may import beside itself. Nobody but the top imports the top; only the top has
pipeline and bridge.
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the project with its dotted name; a package is PACKAGE.__init__."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def group(module: str) -> str:
    parts = module.split(".")
    names = (".".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next(GROUPS[name] for name in names if name in GROUPS)


def imported(path: Path) -> Iterator[str]:
    """Modules of the project that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
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


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    wrong = []
    for module, path in modules():
        if not module.startswith(f"{package}."):
            continue
        for name in imported(path):
            target = group(f"{name}.__init__" if name in PACKAGES else name)
            if target != group(module) and target not in ARROWS[group(module)]:
                wrong.append(f"{module} ({group(module)}) imports {name} ({target})")
    assert not wrong, "\n".join(wrong)


def test_only_what_runs_plans_imports_the_pipeline() -> None:
    users = {module for module, path in modules() if "csdfgen.planning.planner" in imported(path)}
    assert {group(module) for module in users} <= {"top", "pipeline", "runtime"}


@pytest.mark.parametrize(
    "package",
    ["schedules", "sdf3_bridge", "csdfgen", "csdfgen.dataflow.graph_json", "csdfgen.dataflow.dot"],
)
def test_light_packages_load_neither_onnx_nor_numpy(package: str) -> None:
    code = f"import {package}, sys; print(*sorted({{'onnx', 'onnxruntime', 'numpy', 'scipy', 'networkx'}} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
