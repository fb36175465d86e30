"""The worked examples of docs/contributing.md do what the page says, in the files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from csdfgen.backends.native.build import find_compiler
from tests.native_steps import compiler_missing, script
from tests.worked_examples import Tree, example

NATIVE_KERNEL = """
import sys
from pathlib import Path
import csdfgen, runtime
from csdfgen.emission.emit import emit
from tests.builder import Graph, reference

graph = Graph()
x = graph.input("x", (1, 3, 8, 8))
both = graph.node("Max", graph.conv(x, 4), graph.conv(x, 4))
model = graph.model(graph.conv(both, 2))
plan = csdfgen.plan(csdfgen.load(model), backend="native", rows="1")
wanted = reference(model, graph.feeds())
for name, got in runtime.compile(plan)(graph.feeds()).items():
    assert abs(got - wanted[name]).max() < 1e-5, name
print(*emit(plan, "net", Path(sys.argv[1])).files)
"""


@pytest.mark.networks
@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_a_native_kernel(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree", example("Add a native kernel"))
    assert len(tree.files) == 3
    soon = script(tmp_path / "cc", f'exec {find_compiler().name} "$@" -O0')  # a whole library
    shown = tree.run(NATIVE_KERNEL, str(tmp_path / "net"), CC=soon.name)
    assert "kernels/greater.c" in shown.split()


BACKEND = """
import numpy as np
import csdfgen, runtime
from csdfgen.backends.counting.backend import COUNTS

network = csdfgen.load("zoo:lenet5")
x = np.ones(network.inputs[0].shape, np.float32)
(wanted,) = runtime.compile(csdfgen.plan(network, backend="numpy"))(x).values()
(got,) = runtime.compile(csdfgen.plan(network, backend="counting"))(x).values()
assert (got == wanted).all()
print(*COUNTS)
"""


def test_a_backend(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree", example("Add a backend"))
    assert len(tree.files) == 3  # a line with its name, and the folder
    assert "matmul" in tree.run(BACKEND).split()


OPTION = """
import inspect
import csdfgen
from csdfgen.cli import main
from csdfgen.cli.options import parse_source
from csdfgen.files import Fields
from csdfgen.model.options import DEFAULTS, OPTIONS, PlanOptions
from csdfgen.sweeps.axes import AXES
from csdfgen.sweeps.table import COLUMNS

net = csdfgen.load("zoo:lenet5")
plan = csdfgen.plan(net, reserve="4KiB", backend="numpy")
assert plan.options.reserve == 4096 and csdfgen.plan(net, backend="numpy").options.reserve == 0
assert "reserve" in inspect.signature(csdfgen.plan).parameters
assert "reserve: With `memory`: the bytes that a plan leaves free" in inspect.getdoc(csdfgen.plan)
try:
    csdfgen.plan(net, reserve="4 parsecs")
except csdfgen.errors.InputError as error:
    assert str(error).startswith("reserve='4 parsecs': 'parsecs' is no unit")
csdfgen.save_plan(plan, "plan.json")
assert csdfgen.read_plan("plan.json", net).options == plan.options
values = plan.options.to_json()
assert values["reserve"] == 4096 and "reserve" not in DEFAULTS.to_json()
assert PlanOptions.from_fields(Fields(values, "a.json")) == plan.options
assert plan.options.digest != csdfgen.plan(net, backend="numpy").options.digest
assert AXES["reserve"].read("4KiB") == 4096 and COLUMNS["reserve_bytes"] == "integer"
assert parse_source("zoo:lenet5+reserve=4KiB").asked.given == {"reserve": 4096}
for command in ("schedule", "run", "report", "convert", "emit-c"):
    assert main([command, "--help-all"]) == 0
assert main(["schedule", "zoo:lenet5", "--backend", "numpy", "--reserve", "4KiB", "-o", "b.json"]) == 0
assert csdfgen.read_plan("b.json", net).options.reserve == 4096
assert main(["schedule", "zoo:lenet5", "--reserve", "much"]) == 1
"""


def test_an_option(tmp_path: Path) -> None:
    """It is declared in one place, and stands where all others do."""
    tree = Tree(tmp_path / "tree", example("Add an option of planning"))
    assert tree.files == ["csdfgen/model/options.py"]
    shown = tree.run(OPTION)
    words = " ".join(
        shown.replace("│", " ").split()
    )  # of a box, whose columns are as wide as the longest option
    assert shown.count("--reserve") == 5 and "With --memory: the bytes that a" in words


COMMAND = """
from csdfgen.cli import main

assert main(["arena", "zoo:lenet5", "--rows", "1", "--backend", "numpy", "--json"]) == 0
assert main(["arena", "graph.xml"]) == 1
assert main(["arena", "zoo:lenet5", "--rowz", "1"]) == 2
assert main(["arena", "--help"]) == main(["--help"]) == 0
"""


def test_a_command(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree", example("Add a command"))
    assert tree.files == ["csdfgen/cli/arena.py", "csdfgen/cli/command.py"]
    shown = tree.run(COMMAND)
    assert '"arena": ' in shown and "csdfgen arena model.onnx --rows 1" in shown
    assert "Print the size of the arena of a model's plan." in shown
