"""Which loops of products of bytes and of 16-bit integers does the kernel library have? Blocks as those of `generate`, which
writes the headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from csdfgen.backends.native.structures import PANEL


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
    low, size = of.prefix, of.prefix.upper()
    yield f"#define DOT(sum, x, w) sum = {low}dot(sum, x, w); {size}KEEP_TAPS(sum);"
    yield ""
    for number, (vectors, pixels) in enumerate(of.blocks):
        yield f"#{'el' if number else ''}if {size}VECTORS == {vectors}"
        for count in range(1, pixels + 1):
            if count > 1:
                yield f"#if {size}PIXELS >= {count}"
            yield from _dots(of, vectors, count)
            if count > 1:
                yield "#endif"
    yield "#endif"
    yield ""
    yield f"static csdf_{of.name} *const {of.name}[] = {{"
    for count in range(1, max(pixels for _, pixels in of.blocks) + 1):
        if count > 1:
            yield f"#if {size}PIXELS >= {count}"
        yield f"    {of.name}_{count},"
        if count > 1:
            yield "#endif"
    yield "};"


def _dots(of: _Products, vectors: int, pixels: int) -> Iterator[str]:
    sums = [[f"a{i}_{v}" for v in range(vectors)] for i in range(pixels)]
    low, size, terms = of.prefix, of.prefix.upper(), of.terms
    yield f"static void {of.name}_{pixels}(const {low}e *x, ptrdiff_t pitch, const {of.weight} *weights, ptrdiff_t steps,"
    yield "    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)"
    yield "{"
    if pixels == 1:
        yield "    (void)pitch, (void)apart;"
    yield f"    for (int32_t o = 0; o < outs; o += {size}VECTORS * {size}OUTS) {{"
    yield f"        const {of.weight} *w = weights + {terms} * o;"
    for i in range(pixels):
        yield f"        const {low}e *p{i} = x{f' + {i} * pitch' if i else ''};"
    for row in sums:
        yield f"        {low}sum {', '.join(f'{one} = {low}none()' for one in row)};"
    yield f"        for (ptrdiff_t k = 0; k < {terms} * steps; k += {terms}, w += {terms * PANEL}) {{"
    for v in range(vectors):
        yield f"            {low}taps w{v} = {low}weights(w + {terms * v} * {size}OUTS); {size}KEEP_TAPS(w{v});"
    for i, row in enumerate(sums):
        each = " ".join(f"DOT({one}, x{i}, w{v})" for v, one in enumerate(row))
        yield f"            const {low}four x{i} = {low}spread(p{i} + k); {each}"
    yield "        }"
    for i, row in enumerate(sums):
        at = f"to + {PANEL * i} + o"
        source = f"from + {i} * apart + o" if i else "from + o"
        if vectors == 1:
            yield f"        {low}put({at}, {source}, {row[0]});"
        for v in range(0, vectors - 1, 2):
            more = f" + {v} * {size}OUTS" if v else ""
            yield f"        {low}put({at}{more}, {source}{more}, {row[v]}, {row[v + 1]});"
    yield "    }"
    yield "}"
    yield ""


_WIDE = ((4, 6), (3, 8), (2, 12), (1, 12))
"""Panels whose sums are formed together and most pixels, where a vector has a sum of each output of a panel."""


_STEPS = 4
"""Steps of four products in a turn of the innermost loop: where two threads share a core, a third of its time would go to
addresses.
"""


def dots() -> Iterator[str]:
    """The header with the blocks of products of bytes: of one panel, and of several."""
    yield from products(DOTS)
    yield "#ifdef CSDF_WIDE"
    for panels, most in _WIDE:
        for pixels in range(1, most + 1):
            yield from _wide(panels, pixels)
    for panels, most in _WIDE:
        yield f"static csdf_wide_block *const wide_{panels}[] = {{"
        yield "    " + ", ".join(f"wide_{panels}x{n}" for n in range(1, most + 1)) + ","
        yield "};"
    yield "static const struct {"
    yield "    csdf_wide_block *const *blocks;"
    yield "    int32_t pixels;"
    yield "} wide[] = {"
    for panels, most in reversed(_WIDE):
        yield f"    {{wide_{panels}, {most}}},"
    yield "};"
    yield "#endif"


def _wide(panels: int, pixels: int) -> Iterator[str]:
    """Sums of some panels and pixels, which become bytes in registers."""
    sums = [[f"a{i}_{v}" for v in range(panels)] for i in range(pixels)]
    yield f"static void wide_{panels}x{pixels}(const csdf_wide *b, const uint8_t *const *at, uint8_t *const *out)"
    yield "{"
    if panels > 1:
        yield "    const ptrdiff_t panel = b->panel;"
    yield "    const int8_t *w = b->weights;"
    for row in sums:
        yield f"    csdf_sum {', '.join(row)};"
    for v in range(panels):
        yield f"    {' = '.join(row[v] for row in sums)} = csdf_wide_sums(b->bias + {PANEL * v});"
    yield "    for (int32_t tap = 0; tap < b->taps; tap++)"
    yield "        for (int32_t piece = 0; piece < b->pieces; piece++, at += b->apart) {"
    yield "            const ptrdiff_t count = b->counts[piece];"
    yield "            const uint8_t *" + ", *".join(f"p{i} = at[{i}]" for i in range(pixels)) + ";"
    yield "            ptrdiff_t k = 0;"
    for steps in (_STEPS, 1):
        yield f"            for (; k + {4 * steps} <= count; k += {4 * steps}, w += {4 * steps * PANEL}) {{"
        for step in range(steps):
            yield "                {"
            for v in range(panels):
                shift = f" + {v} * panel" if v else ""
                at = f"w{shift} + {4 * step * PANEL}"
                yield f"                    csdf_taps w{v} = csdf_weights({at}); CSDF_KEEP_TAPS(w{v});"
            for i, row in enumerate(sums):
                each = " ".join(f"DOT({one}, x{i}, w{v})" for v, one in enumerate(row))
                yield f"                    const csdf_four x{i} = csdf_spread(p{i} + k + {4 * step}); {each}"
            yield "                }"
        yield "            }"
    yield "        }"
    yield "    if (b->sums) {"
    for i, row in enumerate(sums):
        for v, one in enumerate(row):
            yield f"        csdf_wide_keep(b->sums + {(v * pixels + i) * PANEL}, {one});"
    yield "        return;"
    yield "    }"
    for i, row in enumerate(sums):
        four = ", ".join(row[min(v, panels - 1)] for v in range(4))
        yield f"    csdf_wide_bytes(b, out[{i}], {panels}, {four});"
    yield "}"
    yield ""


BYTES: Mapping[str, Callable[[], Iterator[str]]] = MappingProxyType(
    {"dots.h": dots, "pairs.h": partial(products, PAIRS)}
)
"""Generated header -> what makes its lines."""
