"""Items and offsets in minimalloc's CSV form: there and back, and every file that is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from csdfgen.errors import InputError
from csdfgen.planning.packing import Items, pack
from csdfgen.planning.packing.minimalloc import read_offsets, write_items
from tests.packed_items import read_items, write_solution
from tests.property.test_packing import random_items

EXAMPLE = (
    "id,lower,upper,size,offset\nb1,0,3,4,8\nb2,3,9,4,8\nb3,0,9,4,4\nb4,9,21,4,4\nb5,0,21,4,0\n"
)
"""The solution that minimalloc's own page shows."""

ITEMS = Items(
    [4, 4, 4, 4, 4], [0, 3, 0, 9, 0], [3, 9, 9, 21, 21],
    alignment=1, names=["b1", "b2", "b3", "b4", "b5"],
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "items.csv"


def test_the_published_example(file: Path) -> None:
    write_solution(file, ITEMS, [8, 8, 4, 4, 0])
    assert file.read_text() == EXAMPLE
    assert read_offsets(file, ITEMS).tolist() == [8, 8, 4, 4, 0]
    assert pack(ITEMS).total == 12
    write_items(file, ITEMS)
    assert file.read_text() == EXAMPLE.replace(",offset", "").replace(",8\n", "\n").replace(
        ",4,4\n", ",4\n"
    ).replace(",4,0\n", ",4\n")
    items, offsets = read_items(file)
    assert items.names == ["b1", "b2", "b3", "b4", "b5"]
    assert offsets is None and items.gone.tolist() == ITEMS.gone.tolist()


def test_there_and_back(file: Path) -> None:
    for seed in range(40):
        items = random_items(seed, 60, fixed=seed % 2 == 0)
        offsets = np.where(items.sizes > 0, pack(items, effort="low").offsets, 0)
        write_solution(file, items, offsets)
        assert read_offsets(file, items).tolist() == offsets.tolist(), seed


def test_names_are_kept_apart_without_quotes(file: Path) -> None:
    names = ["a,b", 'a"b', "a%2Cb", "a b", "line\nbreak", "größe", "/conv/out[3]"]
    items = Items([16] * 7, [0] * 7, [1] * 7, names=names)
    offsets = np.arange(7) * 16
    write_solution(file, items, offsets)
    assert '"' not in file.read_text() and "a%2Cb,0,1,16,16,0\n" in file.read_text()
    assert read_offsets(file, items).tolist() == offsets.tolist()
    with pytest.raises(InputError, match="two items are called 'x'"):
        write_items(file, Items([1, 1], [0, 0], [1, 1], names=["x", "x"]))


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.replace("\n", "\r\n"),
        "\ufeff" + EXAMPLE,
        EXAMPLE + "\n\n",
        "buffer,start,end,size,offset\nb1,0,2,4,8\nb2,3,8,4,8\nb3,0,8,4,4\nb4,9,20,4,4\nb5,0,20,4,0\n",
        "offset,size,upper,lower,id\n8,4,3,0,b1\n8,4,9,3,b2\n4,4,9,0,b3\n4,4,21,9,b4\n0,4,21,0,b5\n",
    ],
)
def test_other_spellings_are_read(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    assert read_offsets(file, ITEMS).tolist() == [8, 8, 4, 4, 0]


REFUSED = {
    "": "first line is ''; 'id,lower,upper,size,offset' is needed",
    "{}": "first line is '{}'",
    "id,lower,upper,size\nb1,0,3,4\n": "has no column 'offset'",
    "id,lower,upper,size,size\n": "has two columns 'size'",
    "id,lower,upper,end,size\n": "has two columns 'upper'",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4"): "line 2: has 4 fields, where the first line has 5",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,8,9"): "has 6 fields",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,x"): "line 2: offset of 'b1' is 'x'; a whole number from 0",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,-8"): "offset of 'b1' is '-8'",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,8.0"): "offset of 'b1' is '8.0'",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,1e3"): "offset of 'b1' is '1e3'",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,٣"): "offset of 'b1' is '٣'",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4," + "9" * 5000): "offset of 'b1' is '9999",
    EXAMPLE.replace("b1,0,3,4,8", f"b1,0,3,4,{2**63}"): "a whole number from 0 to 9223372036854775807",
    EXAMPLE.replace("b1,0,3,4,8", f"b1,0,3,4,{2**63 - 1}"): "beyond the 20 bytes of all items",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,17"): "'b1' ends at 21, beyond the 20 bytes",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,8,8"): "'b1' has size 8, where the plan has 4",
    EXAMPLE.replace("b1,0,3,4,8", "b1,1,3,4,8"): "'b1' has lower 1, where the plan has 0",
    EXAMPLE.replace("b1,0,3,4,8", "b1,3,3,4,8"): r"'b1' is alive during \[3, 3\), which is empty",
    EXAMPLE.replace("b1,0,3,4,8", "b1,0,3,4,4"): r"'b1' in bytes \[4, 8\) and 'b3' in bytes \[4, 8\) overlap .* \[0, 3\)",
    EXAMPLE.replace("b1", "b9"): "line 2: 'b9' is no item of this plan, which has 5",
    EXAMPLE.replace("b1", "b2"): "'b2' is there twice, in lines 2 and 3",
    EXAMPLE.replace("b1,0,3,4,8\n", ""): "has 4 of 5 items; 'b1' is missing",
    EXAMPLE.replace("b1", ""): "line 2: has no id",
    EXAMPLE.replace("b1", '"b1'): "line 6: is no CSV file",
    "id,lower,upper,size,gaps,offset\nb1,0,3,4,1-2,8\n": "gaps '1-2'; items are alive without gaps here",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=REFUSED[text]) as told:
        read_offsets(file, ITEMS)
    assert str(told.value).startswith(str(file)) and "\n" not in str(told.value)


def test_refused_bytes(file: Path) -> None:
    for data, said in (
        (b"\xff\xfe\x00", "byte 0 is no UTF-8 text"),
        (b"id\x00,", "first line|NUL"),
    ):
        file.write_bytes(data)
        with pytest.raises(InputError, match=said):
            read_offsets(file, ITEMS)
    with pytest.raises(InputError, match="cannot be read"):
        read_offsets(file.parent, ITEMS)


def test_alignment_and_fixed_offsets_are_held(file: Path) -> None:
    items = Items([16, 16], [0, 0], [1, 1], fixed=[-1, 40], names=["x", "y"])
    write_solution(file, items, [8, 40])
    with pytest.raises(InputError, match="offset 8 of 'x' is no multiple of 16 bytes"):
        read_offsets(file, items)
    write_solution(file, items, [0, 16])
    with pytest.raises(InputError, match="'y' is at 16, but is fixed at 40"):
        read_offsets(file, items)
    file.write_text("id,lower,upper,size,alignment\nx,0,1,4,4\ny,0,1,4,8\n")
    with pytest.raises(InputError, match="alignment 4 in line 2 and 8 in line 3"):
        read_items(file)
