"""Inner loops of kernels for Armv8, in what the compiler makes of them: mostly multiply-adds, and no sum is stored."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from csdfgen.backends.native.build import STANDARD
from csdfgen.backends.native.generate import SOURCES, write
from tests.board_networks import absent

PRODUCTS = ("fmla", "sdot", "sudot", "bfmlalb", "bfmlalt", "fmlal", "fmlal2")
SHARE = 0.72
"""Of multiply-adds, at least."""


def functions(assembly: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of each function, by name."""
    for name, body in re.findall(r"^(\w+):\n(.*?)^\t\.size\t\1,", assembly, re.M | re.S):
        yield name, body.splitlines()


def inner_loop(lines: Sequence[str]) -> list[str]:
    """The instructions of the loop with the largest share of multiply-adds, and of those the longest."""
    at = {line[:-1]: k for k, line in enumerate(lines) if line.endswith(":")}
    jumps = ((k, at.get(line.split()[-1], k)) for k, line in enumerate(lines) if line[:1] == "\t")
    loops = (lines[start : end + 1] for end, start in jumps if start < end)
    found = ([line for line in loop if re.match(r"\t[a-z]", line)] for loop in loops)
    return max(found, key=lambda loop: (share(loop), len(loop)))


def share(loop: Sequence[str]) -> float:
    return sum(line.split()[0] in PRODUCTS for line in loop) / len(loop)


@pytest.mark.networks
@pytest.mark.parametrize(
    ("source", "machine", "blocks"),
    [
        ("products", "armv8-a", "(run|block)_(4x[456]|2x[678]|8x3)"),
        ("conv_lines", "armv8-a", "line_(4x[456]|2x[678])"),
        ("conv_bytes", "armv8.2-a+dotprod", "dots_[456]|wide_4x[456]"),
        ("conv_bytes", "armv8.6-a", "wide_4x[456]"),
        ("conv_bf16", "armv8.6-a", "(run|block)_4x[56]"),
        ("conv_f16", "armv8.2-a+fp16fml", "(run|block)_4x[56]"),
    ],
)
def test_inner_loops(source: str, machine: str, blocks: str, tmp_path: Path) -> None:
    absent("aarch64-linux-gnu-gcc")
    write(tmp_path)
    command = f"aarch64-linux-gnu-gcc -O3 -w -march={machine} -I{tmp_path} -S -o -".split()
    command += [*STANDARD, str(SOURCES / f"{source}.c")]
    text = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True).stdout
    found = {name: inner_loop(body) for name, body in functions(text) if re.fullmatch(blocks, name)}
    assert len(found) >= 3
    for name, loop in found.items():
        assert share(loop) >= SHARE, name
        assert not [line for line in loop if "[sp" in line], name
