"""The tables of docs/sdf3.md and the pictures of docs/analysis.md are current, and the tools print what
these pages say.
"""

from __future__ import annotations

import re

import pytest

from sdf3_bridge.tools import KITER, SDF3, Family, find_tool
from tests.command import execute
from tests.graphs import SDF3_DATA
from tests.sdf3_page import EXAMPLES, PAGE, pictures, with_tables


def test_pictures_are_those_that_are_drawn() -> None:
    for name, picture in pictures().items():
        assert (PAGE.parent / name).read_bytes() == picture, f"make docs draws {name} anew"


@pytest.mark.networks
@pytest.mark.skipif(
    not SDF3_DATA.exists(),
    reason="the recorded values of SDF3 and Kiter are not beside the repository",
)
def test_tables_are_those_that_are_computed() -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text, "make docs writes the new tables"


def printed(family: Family, *arguments: str) -> str:
    tool = find_tool(family)
    if tool is None:
        pytest.skip("not installed; the environment variable can point to it")
    return execute(tool.path, *arguments, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("example", "algorithm", "pattern"),
    [
        ("phases", "repetition_vector", r"\[A\] = 12\n \[B\] = 18"),
        ("phases", "throughput", r"= 0\.0416667\n"),
        (
            "bound",
            "buffersize",
            r"Offs>\s*<distributionsSet thr='0\.125' sz='14'>",
        ),  # 10 and 2 for each serial self-loop
        ("overtake", "throughput", r"= 0\n"),
        ("convolution", "throughput", r"= 0\.0416667\n"),
        (
            "convolution",
            "buffersize",
            r"Offs>\s*<distributionsSet thr='0' sz='0'>(?!.*<distributionsSet)",
        ),
    ],
)
def test_sdf3_says_what_the_page_says(example: str, algorithm: str, pattern: str) -> None:
    text = printed(SDF3, "--graph", str(EXAMPLES / f"{example}.xml"), "--algo", algorithm)
    assert re.search(pattern, text, re.DOTALL)


@pytest.mark.parametrize(
    ("example", "algorithm", "pattern"),
    [
        ("bound", "ThroughputBufferingDSE", r'\n10;0\.25;"10";'),
        ("overtake", "KPeriodicThroughput", r"Throughput is\s+0\.166666667\n"),
    ],
)
def test_kiter_says_what_the_page_says(example: str, algorithm: str, pattern: str) -> None:
    assert re.search(
        pattern, printed(KITER, "-f", str(EXAMPLES / f"{example}.xml"), "-a", algorithm)
    )
