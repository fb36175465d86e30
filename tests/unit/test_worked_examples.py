"""The worked examples of docs/contributing.md do what the page says, in the files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.native_steps import compiler_missing
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


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_a_native_kernel(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree", example("Add a native kernel"))
    assert len(tree.files) == 3
    assert "kernels/greater.c" in tree.run(NATIVE_KERNEL, str(tmp_path / "net")).split()


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
