"""Which headers of the kernel library are generated? Loops that name every register, and a list of all structures.

Some compilers store accumulators of an array in memory, so that each accumulator is a variable. The headers are not
checked in: they are generated when a library is built and when C is emitted, which takes about a tenth of a second.
`python -m csdfgen.backends.native.generate FOLDER` writes them to a folder.

A *block* computes some pixels times some vectors of output channels: pixels * vectors accumulators, and for each input
channel a broadcast per pixel and a load per vector. A *strip* computes neighbouring pixels of a depthwise layer, so that
each input value is loaded once for all windows that contain it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.byte_blocks import BYTES
from csdfgen.backends.native.structures import PANEL, SOURCES, structures
from csdfgen.backends.native.template import TEXT, fill_template

__all__ = ["GENERATED", "SOURCES", "read_source", "write"]

TURN = 8
"""Input channels per turn of the innermost loop. In each turn, a block prefetches its share of the next weights: other
lines of the cache than its neighbours.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """Blocks of `vectors` vectors and up to `pixels` pixels, for passes of at most `most` pixels (0: any number)."""

    vectors: int
    pixels: int
    most: int = 0


BLOCKS: Mapping[int, tuple[Shape, ...]] = MappingProxyType(
    {
        16: (Shape(8, 2, 2), Shape(4, 6), Shape(3, 8), Shape(2, 12), Shape(1, 12)),
        8: (Shape(8, 1, 1), Shape(4, 3, 3), Shape(2, 6), Shape(1, 12)),
        4: (Shape(8, 3, 3), Shape(4, 6), Shape(2, 8), Shape(1, 12)),
        1: (Shape(4, 4),),
    }
)
"""Lanes of a vector -> shapes, of which the first that fits is used. None of them spills registers (measured)."""

BY_ELEMENT = 4
"""Lanes of vectors whose elements can be factors of all elements of another, as those of Armv8: blocks load four input
channels of a pixel at a time, and broadcast none.
"""

STRIPS = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (1, 1))
"""Widths and strides of windows that have their own strips; the last, of one tap, works for all windows."""

STRIP = 8
"""Most pixels of a strip."""

_HEADER = "/* Written by csdfgen/backends/native/generate.py: change that. */\n"


# --- blocks -------------------------------------------------------------------------------------


def block(lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The functions that compute blocks of a shape: for any pass, and for passes with a single run, of one tap and piece."""
    panels, several = [*_panels(lanes, vectors)], _panels_of(lanes, vectors) > 1
    # long sums leave time to prefetch the output; short ones are faster without
    fetched = [(i, lane) for i in range(pixels) for lane in range(0, vectors * lanes, PANEL)]

    def moves(steps: str) -> str:
        return f", w += {steps}" if several else ""

    def form(name: str, single: bool) -> dict[str, Any]:
        run = fill_template(
            TEXT / "run.h",
            addresses=[{"i": i} for i in range(pixels)],
            table="table" if single else "t",
            turned=moves(f"CSDF_TURN * {PANEL}"),
            stepped=moves(str(PANEL)),
            first="w" if several else "z",
            rest="REST" if lanes == BY_ELEMENT else "PRODUCTS(0)",
            panels=panels,
            several=several,
            panel=PANEL,
        )
        return {"form": name, "single": single, "run": run}

    return fill_template(
        TEXT / "block.h",
        **_grid(lanes, vectors, pixels, [f"p{i} + c + k" for i in range(pixels)]),
        forms=[form("block", False), form("run", True)],
        panel=PANEL,
        panels=panels,
        several=several,
        begun=[*_begun("pass->bias", lanes, vectors, pixels)],
        fetched=[{"i": i, "lane": lane} for i, lane in fetched],
        skips=moves(f"pass->skip * {PANEL}"),
    )


def _grid(lanes: int, vectors: int, pixels: int, inputs: Sequence[str]) -> dict[str, Any]:
    """The accumulators of some vectors of some pixels, and what is added to them. inputs: addresses, of the pixels."""
    grid = [{"i": i, "v": v, "lane": v * lanes} for i in range(pixels) for v in range(vectors)]
    return {
        "vectors": vectors,
        "pixels": pixels,
        "grid": grid,
        "by_element": lanes == BY_ELEMENT,
        "macros": fill_template(
            TEXT / "grid.h",
            all=_all(f"a{one['i']}_{one['v']}" for one in grid),
            products=_sums(lanes, vectors, inputs),
            by_element=lanes == BY_ELEMENT,
            inputs=[{"i": i, "at": at} for i, at in enumerate(inputs)],
            elements=_elements(lanes, vectors, pixels),
        ),
    }


def _sums(lanes: int, vectors: int, inputs: Sequence[str]) -> Iterator[str]:
    """The lines of the macro of all products of an input channel. inputs: their addresses, of the pixels."""

    pixels = len(inputs)
    grid = [(i, v) for i in range(pixels) for v in range(vectors)]
    xs = [f"const INPUT x{i} = SPREAD(part, {one}, alone);" for i, one in enumerate(inputs)]
    at = [" + ".join(_weights(lanes, vectors, v)) for v in range(vectors)]
    ws = [f"const WEIGHTS w{v} = LOAD(part, {one});" for v, one in enumerate(at)]
    # the fewer operands stay in registers, the others are loaded one at a time
    few_weights = vectors <= pixels
    held, coming = (ws, xs) if few_weights else (xs, ws)
    for text in held:
        yield f"{text} \\"
    for n, text in enumerate(coming):
        mine = [(i, v) for i, v in grid if n == (i if few_weights else v)]
        sums = " ".join(f"ADD(a{i}_{v}, x{i}, w{v});" for i, v in mine)
        yield f"{text} {sums} \\"


def _weights(lanes: int, vectors: int, v: int) -> tuple[str, str]:
    """Where the weights of a vector are: an address, and floats behind it."""
    panel, lane = divmod(v * lanes, PANEL)
    if panel == _panels_of(lanes, vectors) - 1:
        return "z", f"{lane}"
    return f"u{panel}" if panel else "w", f"{lane} + {PANEL} * k"


def _elements(lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The lines of the macro of all products of one of four input channels: two vectors of weights at a time, which are what
    is left of thirty-two registers. Behind those of the last panel comes the next channel.
    """
    for v in range(0, vectors, 2):
        two, (base, further) = range(v, min(v + 2, vectors)), _weights(lanes, vectors, v)
        names = ", ".join(f"w{one}" for one in two)
        if base != "z":
            yield f"CSDF_LOAD_TWO({names}, {base}, {further}); \\"
        else:
            moved = f"pitch - 4 * {further}" if v + 2 >= vectors else f"8 * {lanes}"
            yield f"CSDF_NEXT_{'TWO' if len(two) > 1 else 'ONE'}({names}, z, {moved}); \\"
        for one in two:
            yield (
                " ".join(f"CSDF_FMA_BY(a{i}_{one}, x{i}, w{one}, n);" for i in range(pixels))
                + " \\"
            )


def _begun(bias: str, lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The accumulators, and what they begin with."""
    for i in range(pixels):
        yield "csdf_v " + ", ".join(f"a{i}_{v}" for v in range(vectors)) + ";"
    for v in range(vectors):
        names = " = ".join(f"a{i}_{v}" for i in range(pixels))
        yield f"{names} = csdf_load({bias} + {v * lanes});"


def _panels_of(lanes: int, vectors: int) -> int:
    """How many panels so many vectors are of."""
    return -(-vectors * lanes // PANEL)


def _panels(lanes: int, vectors: int) -> Iterator[str]:
    """Addresses of the panels between the first and the last, which has its own, as it may be narrow. Sums of address and
    channel would have a register each, more than there are.
    """
    for n in range(1, _panels_of(lanes, vectors) - 1):
        yield f"const float *u{n} = {f'u{n - 1}' if n > 1 else 'w'} + panel; CSDF_KEEP_ADDRESS(u{n});"


def _all(names: Iterable[str]) -> Iterator[str]:
    """The macro that applies another macro to every accumulator."""
    calls = [f"DO({name})" for name in names]
    lines = [" ".join(calls[start : start + 8]) for start in range(0, len(calls), 8)]
    yield "#define ALL(DO) " + " \\\n    ".join(lines)


def _products(lanes: int) -> Iterator[str]:
    """The macros that blocks and lines have in common."""
    turns = " ".join(f"DO({k})" for k in range(TURN))
    by_element = lanes == BY_ELEMENT
    return fill_template(TEXT / "products.h", turn=TURN, turns=turns, by_element=by_element)


def blocks(lanes: int) -> Iterator[str]:
    """The header with the blocks of an instruction set."""
    shapes = BLOCKS[lanes]
    return fill_template(
        TEXT / "blocks.h",
        floats=max(one.vectors * one.pixels for one in shapes) * lanes,
        pixels=max(one.pixels for one in shapes),
        products=_products(lanes),
        shapes=[
            {
                "vectors": one.vectors,
                "pixels": one.pixels,
                "most": one.most,
                "blocks": chain(*(block(lanes, one.vectors, 1 + n) for n in range(one.pixels))),
                "kinds": [{"kind": kind, "names": _named(kind, one)} for kind in ("block", "run")],
            }
            for one in shapes
        ],
    )


def _named(kind: str, shape: Shape) -> list[str]:
    """The functions of a shape, in lines."""
    names = [f"{kind}_{shape.vectors}x{n}" for n in range(1, shape.pixels + 1)]
    return [f"{', '.join(names[start : start + 6])}," for start in range(0, len(names), 6)]


# --- lines --------------------------------------------------------------------------------------

BASES = 4
"""Pixels of a line that share a pointer: an address has no more than one register beside it."""


def line(lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The function that computes pixels of an output row, again and again with those behind them."""
    terms = ("", " + step", " + 2 * step", " + thrice")
    bases = 1 if lanes == BY_ELEMENT else BASES
    inputs = [f"p{i - i % bases} + (c + k{terms[i % bases]})" for i in range(pixels)]
    several, values = _panels_of(lanes, vectors) > 1, _grid(lanes, vectors, pixels, inputs)
    for one in values["grid"]:
        ends = one["v"] == vectors - 1
        one["load"], one["store"] = (
            ("LINE_LOAD", "LINE_STORE") if ends else ("csdf_load", "csdf_store")
        )
        i, lane, moves = one["i"], one["lane"], ends and bases == 1
        one["at"], one["to"] = (
            f" + {lane}" if bases == 1 else f" + {i} * {pace} + {lane}"
            for pace in ("l->init_pace", "pace")
        )
        one["next_init"] = " init += l->init_pace; CSDF_KEEP_ADDRESS(init);" if moves else ""
        one["next_out"] = " out += pace; CSDF_KEEP_ADDRESS(out);" if moves else ""
    return fill_template(
        TEXT / "line.h",
        **values,
        thrice=pixels >= bases > 1,
        panels=[*_panels(lanes, vectors)],
        several=several,
        moved=f", w += {(4 if bases == 1 else 2) * PANEL}" if several else "",
        stepped=f", w += {PANEL}" if several else "",
        begun=_begun("l->bias", lanes, vectors, pixels),
        bases=[{"i": i} for i in range(bases, pixels, bases)],
    )


def lines(lanes: int) -> Iterator[str]:
    """The header with the lines of an instruction set."""
    shapes = [one for one in BLOCKS[lanes] if not one.most]
    if shapes[-1].vectors > 1:
        shapes.append(Shape(1, shapes[-1].pixels))  # whatever is left
    return fill_template(
        TEXT / "lines.h",
        products=_products(lanes),
        lines=chain(*(line(lanes, s.vectors, n) for s in shapes for n in range(1, s.pixels + 1))),
        shapes=[
            {
                "vectors": one.vectors,
                "pixels": one.pixels,
                "names": ", ".join(f"line_{one.vectors}x{1 + n}" for n in range(one.pixels)),
            }
            for one in shapes
        ],
    )


# --- strips -------------------------------------------------------------------------------------


def strip(kernel: int, stride: int, pixels: int, even: bool, some: bool) -> Iterator[str]:
    """The function that computes one strip of a depthwise layer; even: without padding. some: channels that are fewer than
    a vector has lanes. With kernel 1, rows of the strip are single taps.
    """
    columns = pixels if kernel == 1 else (pixels - 1) * stride + kernel
    names = [f"a{i}" for i in range(pixels)]

    def products(column: int) -> str:
        taps = [(i, column - i * stride) for i in range(pixels)]
        return " ".join(f"CSDF_FMA(a{i}, x{column}, w{k});" for i, k in taps if 0 <= k < kernel)

    return fill_template(
        TEXT / "strip.h",
        all=_all(names),
        name=_strip(kernel, stride, pixels, even, some),
        even=even,
        some=some,
        pixels=pixels,
        # a line of the cache is as long as a panel: each of its vectors prefetches for some of the pixels
        fetches=even and not some,
        new=pixels if kernel == 1 else pixels * stride,  # those that the next strip alone reads
        columns=columns,
        names=", ".join(names),
        sums=" = ".join(names),
        load="csdf_load_some(" if some else "csdf_load(",
        loaded=", some)" if some else ")",
        take="TAKE_SOME(" if some else "TAKE(",
        give="GIVE_SOME(" if some else "GIVE(",
        stored=", some)" if some else ")",
        each=[{"i": i} for i in range(pixels)],
        moved=1 if even else columns,
        taps=[{"k": k, "at": f"w + {k} * s->channels" if k else "w"} for k in range(kernel)],
        inputs=[
            {
                "column": column,
                "at": f"p + {column} * step" if even else f"t[{column}] + c",
                "products": products(column),
            }
            for column in range(columns)
        ],
    )


def _strip(kernel: int, stride: int, pixels: int, even: bool, some: bool) -> str:
    """Its name."""
    kind = f"{'even' if even else 'strip'}{'_some' if some else ''}"
    return f"{kind}_{kernel}_{stride}_{pixels}"


_FORMS = ((False, False), (True, False), (False, True), (True, True))
"""Of a strip: (even, some)."""


def strips() -> Iterator[str]:
    """The header with all strips."""

    def functions(some: bool) -> Iterator[str]:
        for (kernel, stride), n, even in product(STRIPS, range(STRIP), (False, True)):
            yield from strip(kernel, stride, n + 1, even, some)

    def named(kernel: int, stride: int) -> Iterator[str]:
        for pixels in range(1, STRIP + 1):
            names = [_strip(kernel, stride, pixels, even, some) for even, some in _FORMS]
            yield f"{{{{{names[0]}, {names[1]}}}, {{SOME({names[2]}), SOME({names[3]})}}}},"

    return fill_template(
        TEXT / "strips.h",
        panel=PANEL,
        whole=functions(False),
        some=functions(True),
        shapes=[{"kernel": k, "stride": s, "pixels": named(k, s)} for k, s in STRIPS],
    )


# --- structures ---------------------------------------------------------------------------------


def sizes() -> Iterator[str]:
    """What the compiler makes of all structures, in the order of `structures`."""
    for name in structures():
        yield f"sizeof({name}),"


GENERATED: Mapping[str, Callable[[], Iterator[str]]] = MappingProxyType(
    {
        **{f"blocks_{lanes}.h": partial(blocks, lanes) for lanes in BLOCKS},
        **{f"lines_{lanes}.h": partial(lines, lanes) for lanes in BLOCKS},
        "strips.h": strips,
        **BYTES,
        "sizes.h": sizes,
    }
)
"""Generated header -> what makes its lines."""


@cache
def read_source(name: str) -> str:
    """A file of the library, generated or checked in. Raises OSError."""
    if name in GENERATED:
        return "".join(f"{line}\n" for line in (_HEADER, *GENERATED[name]()))
    return (SOURCES / name).read_text(encoding="ascii")


def write(folder: Path) -> None:
    """Write the generated headers. Raises OSError."""
    for name in GENERATED:
        (folder / name).write_text(read_source(name), encoding="ascii", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
