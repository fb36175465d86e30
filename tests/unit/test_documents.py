"""What documents say is still true: README's commands and examples, the list of operators, links,
tables of benchmarks.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import csdfgen
from benchmarks.bench_speed import MARKER
from benchmarks.bench_speed import PAGE as SPEED
from benchmarks.pages import between
from csdfgen.demo import method
from csdfgen.demo.centerface import model_file
from csdfgen.errors import InputError
from csdfgen.model.network import Node, Tensor
from csdfgen.native.families import KERNELS
from csdfgen.ops.base import Operator, phases, run_slab
from csdfgen.ops.page import page
from csdfgen.planning.plan import FIGURES
from tests import readme
from tests.operators_page import HEADING, PAGE

DOCUMENTS = [
    readme.ROOT / "README.md",
    readme.ROOT / "CHANGELOG.md",
    *sorted((readme.ROOT / "docs").glob("*.md")),
]


def test_readmes_commands_print_what_it_shows() -> None:
    try:
        model_file()
    except InputError as error:
        pytest.skip(str(error))
    text = readme.README.read_text()
    assert readme.masked(readme.executed(text)) == readme.masked(text), (
        "the output has changed; make docs writes the new one"
    )


def test_readmes_operator_computes_what_onnx_says() -> None:
    (example,) = (
        block[2]
        for block in readme.BLOCK.finditer(readme.README.read_text())
        if "SHRINK" in block[2]
    )
    names: dict[str, Operator] = {}
    exec(example, names)
    x = np.array([[-2, -1.5, -0.5, 0, 1, 1.5, 2.5]], np.float32)
    attributes = {"lambd": 1.2, "bias": 0.5}
    node = Node("shrink", "Shrink", 9, attributes, (Tensor("x", x.shape),), ("y",))
    layer = names["SHRINK"].build(node)
    (phase,) = phases(names["SHRINK"], layer, 1)
    y = np.empty_like(x)
    run_slab(names["SHRINK"], layer, phase, [x[None]], [y[None]])
    np.testing.assert_allclose(
        y, np.where(x < -1.2, x + 0.5, np.where(x > 1.2, x - 0.5, 0)), rtol=1e-6
    )


def test_readme_begins_with_the_figures_that_it_shows() -> None:
    """The memory in the first paragraph is that of the demo's table."""
    text = readme.README.read_text()
    begin = text.partition("\n## ")[0]

    def demo(row: str) -> float:
        (found,) = re.findall(rf"│ +{row} +│ \w+ +│ +[\d.]+ MiB │ +([\d.]+) MiB │", text)
        return float(found)

    whole = demo("whole layers, dead tensors freed")
    rows = demo("csdfgen, the arena") + demo("csdfgen, outputs beside it")
    assert f"{whole:.0f} MiB for a face detector" in begin
    assert f"takes {rows:.0f} MiB." in begin
    assert f"in {rows:.0f} MiB instead of {whole:.0f}]" in text


def test_readmes_picture_is_told_to_those_who_do_not_see_it() -> None:
    network = csdfgen.load(method.three_layers())
    found, whole = (
        method.moments(csdfgen.plan(network, rows=rows, result="stored")) for rows in (1, "whole")
    )
    figures = method.memory(found, whole)
    (told,) = re.findall(r"!\[([^]]*)\]\(docs/method.svg\)", readme.README.read_text())
    assert told.endswith(f"{figures.buffers:,} bytes instead of {figures.whole:,}")


def test_readmes_range_of_gains_is_that_of_its_table() -> None:
    rows = re.findall(r"^\| [^*].*\| (\d+\.\d) \|$", between(readme.README, MARKER), re.MULTILINE)
    gains = sorted(map(float, rows))
    said = f"{gains[0]} to {gains[-1]} times less memory"
    assert said in readme.README.read_text().replace("\n", " "), "the text above the table is old"


def test_the_list_of_operators_is_current() -> None:
    listed, found, _ = PAGE.read_text().partition(HEADING)
    assert found
    assert listed == page(KERNELS), "make docs brings it up to date"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize(
    "document",
    [readme.ROOT / "README.md", readme.ROOT / "docs" / "model.md"],
    ids=lambda path: path.name,
)
def test_every_memory_figure_is_explained(document: Path) -> None:
    text = document.read_text()
    assert [name for name in FIGURES if f"| `{name}` |" not in text] == []


def test_times_are_the_same_on_both_pages() -> None:
    """README's summary is of the run that docs/performance.md tells of."""
    short, whole = (between(path, MARKER) for path in (readme.README, SPEED))
    names = [re.findall(r"^\| ([^*|-][^|]*) \|", text, re.MULTILINE) for text in (short, whole)]
    assert names[0] == names[1]
    (mean,) = re.findall(r"native / onnxruntime (\d+\.\d\d)", whole)
    assert f"**{mean}**" in short
    assert f"{mean} of onnxruntime's time in the mean" in readme.README.read_text()
