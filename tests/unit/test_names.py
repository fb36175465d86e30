"""What public functions are called: one that does something begins with a verb; one that only states a value is a noun. What
pages and examples call by name is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("csdfgen", "runtime", "schedules", "sdf3_bridge", "zoo_models")


def set_of_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERBS = set_of_words("""
accept account add align allocate analyze annotate answer append apply arrange assemble assign attach balance bind
broadcast build calibrate call can center check choose clean clear clip close collect combine compact compare compile
complete compose compute convert convolve copy count cover create cut declare decode defer describe detect diagnose
digest divide download draw drop embed emit encode enlarge ensure equalize escape estimate evaluate execute expand
explain explore export extend fill filter find finish fit fold follow format fuse gather generate get give group halve
hand handle heed identify import improve infer interrupt invert is join keep label lift limit list load locate lock look
lower make map match may measure memoize merge mix model move multiply name narrow need normalize observe offer open
order overlap pack pad pair parse pause pick place plan plot pluralize pool prefix prepare present price print profile
prune pseudo pseudo_quantize pull quantize quote raise rank read record reduce refine refit refuse register release
remap remove render repair repeat replace replay report reproduce request require rescale reserve reset resolve restore
rewrite round run sample save say scale scatter schedule search select send serve set share shift shorten show silence
simulate skip slice slow solve sort split start stop store stream strip sum summarize suppress switch take tile time
trace train transform translate transpose trim tune uncross unflatten unpack unroll unwrap update use validate verify
view visit wait walk warn weigh widen wrap write
""")
PREDICATES = frozenset(
    {"is", "are", "has", "have", "can", "may", "needs", "fits", "takes", "uses", "reads", "counts"}
)
PREPOSITIONS = set_of_words("""
about against as at before behind beside between beyond by for from in into of on over per than through to under up with
without
""")
IRREGULAR = set_of_words("""
bound built chosen done drawn found given held kept left lost made met put seen sent set shown taken told written
""")
"""Participles that do not end in -ed."""
CRUTCHES = set_of_words("""
all alone anew each every least most other otherwise several some usual whole
""")
"""Words that name nothing by themselves, as the last one of a name."""

EXCEPTIONS = {
    "in_place_aliases": "a term of the field",
    "rows_per_block": "a ratio",
    "signal_to_noise": "a term of the field",
    "output_bytes_beside": "of a plan: those that lie beside its arena",
    "firings_to_json": "three pairs of a module that has others",
    "firings_from_json": "likewise",
    "table_from_json": "likewise",
    "times_to_json": "likewise",
}


def public_functions(package: str) -> Iterator[tuple[str, str]]:
    """(module, name) of every function of a module that has no underscore in front."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield str(path.relative_to(ROOT)), node.name


def fault(name: str) -> str:
    """Why a name is none by the rule; "" if it is one."""
    first, *others = words = name.split("_")
    if first in VERBS | PREDICATES or name in EXCEPTIONS:
        return ""
    crutches = PREPOSITIONS.intersection(others if first in ("to", "from") else words)
    if crutches:
        return f"has {sorted(crutches)}"
    last = words[-1]
    if last in IRREGULAR | CRUTCHES or (
        last.endswith("ed") and last not in ("seed", "speed", "feed", "need")
    ):
        return f"ends with {last!r}, and begins with no verb"
    return ""


def test_the_rule_knows_names_that_are_none() -> None:
    wrong = set_of_words(
        "chosen settled pulled in_blocks whole_of at_a_time by_tiles with_offsets usual least"
    )
    assert [name for name in wrong if not fault(name)] == []
    right = ["choose_plan", "lower_bound", "peak_live", "to_json", "is_stopped", "convolution"]
    assert [name for name in right if fault(name)] == []


def test_public_functions_are_called_by_what_they_do() -> None:
    found = {
        f"{module}: {name}: {fault(name)}"
        for package in PACKAGES
        for module, name in public_functions(package)
    }
    assert sorted(text for text in found if not text.endswith(": ")) == []


def test_no_exception_is_for_a_name_that_is_gone() -> None:
    names = {name for package in PACKAGES for _, name in public_functions(package)}
    assert sorted(set(EXCEPTIONS) - names) == [] and len(EXCEPTIONS) <= 40


def top_names(path: Path) -> set[str]:
    """What a module defines or imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_pages_name_functions_that_are_there() -> None:
    named = [
        (page.name, path, name)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for path, name in re.findall(r"`((?:\w+/)+\w+\.py)`[ ,(]{1,3}`(\w+)`", page.read_text())
    ]
    assert len(named) > 10
    for page, path, name in named:
        file = next(root / path for root in (ROOT, ROOT / "csdfgen") if (root / path).is_file())
        assert name in top_names(file), f"{page}: {path} has no {name}"


def test_examples_import_what_is_there() -> None:
    for example in sorted((ROOT / "docs/examples").glob("*.py")):
        for node in ast.walk(ast.parse(example.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
                file = ROOT / (node.module or "").replace(".", "/")
                file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
                missing = {alias.name for alias in node.names} - top_names(file)
                assert not missing, f"{example.name}: {node.module} has no {missing}"
