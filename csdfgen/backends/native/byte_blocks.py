"""Which loops of products of bytes and of 16-bit integers does the kernel library have? Blocks as those of `generate`, which
writes the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.structures import PANEL
from csdfgen.backends.native.template import TEXT, fill_template


@dataclass(frozen=True, slots=True)
class _Products:
    """Blocks of products of integers. name: of functions. prefix: of types, functions and sizes in C. weight: their type.
    terms: whose products are added up at a time. blocks: vectors and most pixels, as the header of the instructions has them.
    """

    name: str
    prefix: str
    weight: str
    terms: int
    blocks: tuple[tuple[int, int], ...]


DOTS = _Products("dots", "csdf_", "int8_t", 4, ((1, 12), (2, 12), (4, 6)))
PAIRS = _Products("pairs", "csdf_pair_", "int16_t", 2, ((1, 12), (2, 6), (4, 5)))


def products(of: _Products) -> Iterator[str]:
    """The header with the blocks of products of integers: sixteen outputs for some pixels."""

    def counts(most: int) -> list[dict[str, Any]]:
        return [{"count": n, "guarded": n > 1} for n in range(1, most + 1)]

    return fill_template(
        TEXT / "integers.h",
        low=of.prefix,
        size=of.prefix.upper(),
        name=of.name,
        blocks=[
            {
                "otherwise": "el" if number else "",
                "vectors": vectors,
                "counts": [
                    {**one, "dots": _dots(of, vectors, one["count"])} for one in counts(pixels)
                ],
            }
            for number, (vectors, pixels) in enumerate(of.blocks)
        ],
        all_counts=counts(max(pixels for _, pixels in of.blocks)),
    )


def _dots(of: _Products, vectors: int, pixels: int) -> Iterator[str]:
    size, puts = of.prefix.upper(), []
    for i in range(pixels):
        at, source = f"to + {PANEL * i} + o", f"from + {i} * apart + o" if i else "from + o"
        if vectors == 1:
            puts.append(f"{at}, {source}, a{i}_0")
        for v in range(0, vectors - 1, 2):
            more = f" + {v} * {size}OUTS" if v else ""
            puts.append(f"{at}{more}, {source}{more}, a{i}_{v}, a{i}_{v + 1}")
    return fill_template(
        TEXT / "dots.h",
        name=of.name,
        low=of.prefix,
        size=size,
        weight=of.weight,
        terms=of.terms,
        pixels=pixels,
        alone=pixels == 1,
        moved=of.terms * PANEL,
        taps=[{"v": v, "place": of.terms * v} for v in range(vectors)],
        rows=[
            {
                "i": i,
                "pitched": f" + {i} * pitch" if i else "",
                "none": ", ".join(f"a{i}_{v} = {of.prefix}none()" for v in range(vectors)),
                "each": _added(i, vectors),
            }
            for i in range(pixels)
        ],
        puts=[{"put": put} for put in puts],
        by_element=_by_element(pixels, "4 * steps") if of.terms == vectors == 4 else (),
    )


def _by_element(pixels: int, count: str) -> Iterator[str]:
    """Loops over sixteen and over four values of each pixel, where an instruction multiplies by four. count: of values, in C."""
    elements = [
        {
            "low_two": f"{PANEL * n}",
            "high_two": f"{PANEL * n + PANEL // 2}",
            "first_two": _added_by(n, pixels, (0, 1)),
            "last_two": _added_by(n, pixels, (2, 3)),
        }
        for n in range(4)
    ]
    return fill_template(
        TEXT / "by_element.h",
        count=count,
        panel=PANEL,
        rows=[{"i": i} for i in range(pixels)],
        turns=[
            {"terms": 16, "load": "csdf_sixteen", "elements": elements},
            {"terms": 4, "load": "csdf_first_four", "elements": elements[:1]},
        ],
    )


def _added(i: int, vectors: int) -> str:
    """The products of a pixel, added to its sums."""
    return " ".join(f"DOT(a{i}_{v}, x{i}, w{v})" for v in range(vectors))


def _added_by(n: int, pixels: int, vectors: Sequence[int]) -> str:
    """The products of the n-th of four times four values of all pixels, added to some vectors of their sums."""
    return " ".join(
        f"CSDF_DOT_BY(a{i}_{v}, x{i}, w{v}, {n});" for v in vectors for i in range(pixels)
    )


_WIDE = ((4, 6), (3, 8), (2, 12), (1, 12))
"""Panels whose sums are formed together and most pixels, where a vector has a sum of each output of a panel; the first are also
the vectors of a panel of Armv8.
"""


_STEPS = 4
"""Steps of four products in a turn of the innermost loop: where two threads share a core, a third of its time would go to
addresses.
"""


def dots() -> Iterator[str]:
    """The header with the blocks of products of bytes: of one panel, and of several."""
    *rows, last = (f"{{wide_{panels}, {most}}}," for panels, most in reversed(_WIDE))
    return fill_template(
        TEXT / "wides.h",
        products=products(DOTS),
        tables=[
            {
                "panels": panels,
                "fewer": panels < _WIDE[0][0],
                "blocks": chain(*(_wide(panels, 1 + n) for n in range(most))),
                "names": ", ".join(f"wide_{panels}x{1 + n}" for n in range(most)),
            }
            for panels, most in _WIDE
        ],
        rows=rows,
        last=last,
    )


def _wide(panels: int, pixels: int) -> Iterator[str]:
    """Sums of some panels and pixels, which become bytes in registers."""
    sums = [[f"a{i}_{v}" for v in range(panels)] for i in range(pixels)]

    def step(at: int) -> dict[str, Any]:
        shifts = ("", *(f" + CSDF_WIDE_PANEL(b, {v})" for v in range(1, panels)))
        weights = at * PANEL
        return {
            "at": at,
            "taps": [{"v": v, "shift": s, "weights": weights} for v, s in enumerate(shifts)],
        }

    return fill_template(
        TEXT / "wide.h",
        panels=panels,
        pixels=pixels,
        by_element=_by_element(pixels, "count") if panels == 4 else (),
        rows=[
            {
                "i": i,
                "sums": ", ".join(
                    f"{a} = csdf_wide_sums(from + CSDF_WIDE_SUMS({v}))" for v, a in enumerate(row)
                ),
                "products": _added(i, panels),
                "four": ", ".join(row[min(v, panels - 1)] for v in range(4)),
            }
            for i, row in enumerate(sums)
        ],
        addresses=", *".join(f"p{i} = (const csdf_e *)t[{i}]" for i in range(pixels)),
        turns=[
            {
                "terms": 4 * n,
                "moved": 4 * n * PANEL,
                "steps": [step(4 * k) for k in range(n)],
            }
            for n in (_STEPS, 1)
        ],
        made=", ".join(f"made{i}" for i in range(pixels)),
        kept=[{"i": i, "v": v} for i in range(pixels) for v in range(panels)],
    )


BYTES: Mapping[str, Callable[[], Iterator[str]]] = MappingProxyType(
    {"dots.h": dots, "pairs.h": partial(products, PAIRS)}
)
"""Generated header -> what makes its lines."""
