"""Which headers of the kernel library are generated? Loops that name every register, and a list of all structures.

Some compilers store accumulators of an array in memory, so that each accumulator is a variable. The headers are not
checked in: they are generated when a library is built and when C is emitted, which takes a few hundredths of a second.
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
from pathlib import Path
from types import MappingProxyType

from csdfgen.backends.native.byte_blocks import BYTES
from csdfgen.backends.native.structures import PANEL, SOURCES, structures

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
        4: (Shape(8, 3, 3), Shape(4, 6), Shape(2, 12), Shape(1, 12)),
        1: (Shape(4, 4),),
    }
)
"""Lanes of a vector -> shapes, of which the first that fits is used. None of them spills registers (measured)."""

STRIPS = ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (1, 1))
"""Widths and strides of windows that have their own strips; the last, of one tap, works for all windows."""

STRIP = 8
"""Most pixels of a strip."""

_HEADER = "/* Written by csdfgen/backends/native/generate.py: change that. */\n"


# --- blocks -------------------------------------------------------------------------------------


def block(lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The functions that compute blocks of a shape: for any pass, and for passes with a single run."""
    grid = [(i, v) for i in range(pixels) for v in range(vectors)]
    yield from _sums(lanes, vectors, [f"p{i} + c + k" for i in range(pixels)])
    yield from _all(f"a{i}_{v}" for i, v in grid)
    yield ""
    for single in (False, True):
        yield from _blocks(lanes, vectors, pixels, single)
    yield "#undef PART"
    yield "#undef PRODUCTS"
    yield "#undef ALL"
    yield ""


def _sums(lanes: int, vectors: int, inputs: Sequence[str]) -> Iterator[str]:
    """The macros of all products of the k-th input channel from c on. inputs: their addresses, of the pixels."""

    def at(v: int) -> str:
        """The address of the weights of a vector."""
        panel, lane = divmod(v * lanes, PANEL)
        if panel == last:
            return f"z + {lane}"
        return f"{f'u{panel}' if panel else 'w'} + {lane} + {PANEL} * k"

    pixels, last = len(inputs), _panels_of(lanes, vectors) - 1
    grid = [(i, v) for i in range(pixels) for v in range(vectors)]
    xs = [f"const INPUT x{i} = SPREAD(part, {one}, alone);" for i, one in enumerate(inputs)]
    ws = [f"const WEIGHTS w{v} = LOAD(part, {at(v)});" for v in range(vectors)]
    # the fewer operands stay in registers, the others are loaded one at a time
    few_weights = vectors <= pixels
    held, coming = (ws, xs) if few_weights else (xs, ws)
    yield "/* All products of the k-th input channel from c on. */"
    yield "#define PRODUCTS(k) PARTS(PART, k, 0) NEXT"
    yield "#define PART(part, k, alone) \\"
    yield "    { \\"
    for text in held:
        yield f"        {text} \\"
    for n, text in enumerate(coming):
        mine = [(i, v) for i, v in grid if n == (i if few_weights else v)]
        sums = " ".join(f"ADD(a{i}_{v}, x{i}, w{v});" for i, v in mine)
        yield f"        {text} {sums} \\"
    yield "    }"


def _blocks(lanes: int, vectors: int, pixels: int, single: bool) -> Iterator[str]:
    """One of the two functions; single: for passes with one tap and one piece."""
    grid = [(i, v) for i in range(pixels) for v in range(vectors)]
    run = [f"const float *p{i} = {'table' if single else 't'}[{i}];" for i in range(pixels)]
    panels, several = [*_panels(lanes, vectors)], _panels_of(lanes, vectors) > 1
    first = "w" if several else "z"

    def moves(steps: str) -> str:
        return f", w += {steps}" if several else ""

    run += [
        "ptrdiff_t c = 0;",
        f"for (; c + CSDF_TURN <= count; c += CSDF_TURN{moves(f'CSDF_TURN * {PANEL}')}) {{",
        f"    CSDF_PREFETCH({first} + ahead);",
        "    if (few)",
        f"        for (ptrdiff_t line = ahead + beside; line < next + CSDF_TURN * {PANEL}; line += beside)",
        f"            CSDF_PREFETCH({first} + line);",
        *(f"    {line}" for line in panels),
        "    TURN(PRODUCTS)",
        "}",
        f"for (; c < count; c++{moves(str(PANEL))}) {{",
        *(f"    {line}" for line in panels),
        "    PRODUCTS(0)",
        "}",
        "if (LEFT(all_of)) {",
        *(f"    {line}" for line in panels),
        "    PARTS(PART, 0, 1) NEXT",
        *([f"    w += {PANEL};"] if several else []),
        "}",
    ]
    name = f"{'run' if single else 'block'}_{vectors}x{pixels}"
    yield f"static void {name}(const csdf_pass *pass, const float *const *table,"
    yield "    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,"
    yield "    int32_t times, int32_t all)"
    yield "{"
    yield "    const ptrdiff_t shift = pass->channel, pitch = pass->pitch * (ptrdiff_t)sizeof(float);"
    yield f"    const ptrdiff_t beside = (ptrdiff_t)all * {PANEL};"
    yield "    const int few = all < CSDF_TURN;"
    if single:
        yield "    const ptrdiff_t all_of = pass->counts[0], count = STEPS(all_of);"
    if panels:
        yield "    const ptrdiff_t panel = pass->panel;"
    yield "    for (int32_t k = 0; k < times; k++) {"
    if not single:
        yield "        const float *const *t = table;"
    if several:
        yield "        const float *w = pass->weights;"
    yield "        const float *z = pass->last;"
    yield f"        const ptrdiff_t ahead = next + (first + k) % CSDF_TURN * {PANEL};"
    yield from _begun("pass->bias", lanes, vectors, pixels)
    yield "        if (init) {"
    for i, v in grid:
        yield f"            a{i}_{v} += csdf_load(init[{i}] + shift + {v * lanes});"
    yield f"            init += {pixels};"
    yield "        }"
    if single:
        yield from _indented(run, 2)
    else:
        # long sums leave time to prefetch the output; short ones are faster without
        for i in range(pixels):
            for v in range(0, vectors * lanes, PANEL):
                yield f"        CSDF_PREFETCH_OUT(out[{i}] + shift + {v});"
        skips = moves(f"pass->skip * {PANEL}")
        yield f"        for (int32_t tap = 0; tap < pass->taps; tap++, z += pass->skip * pass->pitch{skips}) {{"
        yield "            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {"
        yield "                const ptrdiff_t all_of = pass->counts[i], count = STEPS(all_of);"
        yield from _indented(run, 4)
        yield "            }"
        yield "        }"
    yield from _indented(_activation("pass->activation"), 1)
    for i, v in grid:
        yield f"        csdf_store(out[{i}] + shift + {v * lanes}, a{i}_{v});"
    yield f"        table += {pixels};"
    yield f"        out += {pixels};"
    yield "    }"
    yield "}"
    yield ""


def _begun(bias: str, lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The accumulators, and what they begin with."""
    for i in range(pixels):
        yield "        csdf_v " + ", ".join(f"a{i}_{v}" for v in range(vectors)) + ";"
    for v in range(vectors):
        names = " = ".join(f"a{i}_{v}" for i in range(pixels))
        yield f"        {names} = csdf_load({bias} + {v * lanes});"


def _panels_of(lanes: int, vectors: int) -> int:
    """How many panels so many vectors are of."""
    return -(-vectors * lanes // PANEL)


def _panels(lanes: int, vectors: int) -> Iterator[str]:
    """Addresses of the panels between the first and the last, which has its own, as it may be narrow. Sums of address and
    channel would have a register each, more than there are.
    """
    for n in range(1, _panels_of(lanes, vectors) - 1):
        yield f"const float *u{n} = {f'u{n - 1}' if n > 1 else 'w'} + panel; CSDF_KEEP_ADDRESS(u{n});"


def _indented(lines: Iterable[str], levels: int) -> Iterator[str]:
    for line in lines:
        yield "    " * levels + line


def _activation(by: str) -> Iterator[str]:
    """The activation of all accumulators of ALL."""
    yield f"    if ({by}.kind == CSDF_CLIP) {{"
    yield f"        const csdf_v low = csdf_splat({by}.a), high = csdf_splat({by}.b);"
    yield "        ALL(CLIPPED)"
    yield f"    }} else if ({by}.kind == CSDF_LEAKY) {{"
    yield f"        const csdf_v slope = csdf_splat({by}.a), zero = csdf_splat(0.0f);"
    yield "        ALL(LEAKING)"
    yield "    }"


_FLOATS = (
    "#ifndef INPUT",
    "/* What is multiplied, unless the file that includes this has said so: an input channel is one product. */",
    "#define INPUT csdf_v",
    "#define WEIGHTS csdf_v",
    "#define SPREAD(part, at, alone) csdf_splat(*(at))",
    "#define LOAD(part, at) csdf_load(at)",
    "#define ADD(sum, x, w) CSDF_FMA(sum, x, w)",
    "#define PARTS(DO, k, alone) DO(0, k, alone)",
    "#define STEPS(count) (count)",
    "#define LEFT(count) 0",
    f"#define CSDF_TURN {TURN}",
    f"#define TURN(DO) {' '.join(f'DO({k})' for k in range(TURN))}",
    "#endif",
    "",
)

_NEXT = (
    "/* The weights of the next input channel in the last panel, which is as wide as it has channels. */",
    "#define NEXT z = (const float *)(const void *)((const char *)z + pitch); CSDF_KEEP_ADDRESS(z);",
)

_ACTIVATIONS = (
    "#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));",
    "#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);",
)


_FETCHES = (
    f"#define FETCHES ({PANEL} / CSDF_LANES)",
    "#define FETCH(count, at, pace) \\",
    "    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \\",
    "        CSDF_PREFETCH_NEAR((at) + i * (pace));",
    "#define FETCH_OUT(count, at, pace) \\",
    "    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \\",
    "        CSDF_PREFETCH_OUT((at) + i * (pace));",
)


def _all(names: Iterable[str]) -> Iterator[str]:
    """The macro that applies another macro to every accumulator."""
    calls = [f"DO({name})" for name in names]
    lines = [" ".join(calls[start : start + 8]) for start in range(0, len(calls), 8)]
    yield "#define ALL(DO) " + " \\\n    ".join(lines)


def blocks(lanes: int) -> Iterator[str]:
    """The header with the blocks of an instruction set."""
    shapes = BLOCKS[lanes]
    yield f"#define CSDF_BLOCK_FLOATS {max(one.vectors * one.pixels for one in shapes) * lanes}"
    yield f"#define CSDF_BLOCK_PIXELS {max(one.pixels for one in shapes)}"
    yield ""
    yield from _FLOATS
    yield from _NEXT
    yield from _ACTIVATIONS
    yield ""
    for shape in shapes:
        for pixels in range(1, shape.pixels + 1):
            yield from block(lanes, shape.vectors, pixels)
    for shape in shapes:
        for kind in ("block", "run"):
            names = [f"{kind}_{shape.vectors}x{n}" for n in range(1, shape.pixels + 1)]
            yield f"static csdf_block *const {kind}s_{shape.vectors}[] = {{"
            for start in range(0, len(names), 6):
                yield "    " + ", ".join(names[start : start + 6]) + ","
            yield "};"
    yield ""
    yield "static const csdf_shape shapes[] = {"
    for shape in shapes:
        functions = f"{{blocks_{shape.vectors}, runs_{shape.vectors}}}"
        yield f"    {{{shape.vectors}, {shape.pixels}, {shape.most}, {functions}}},"
    yield "};"


# --- lines --------------------------------------------------------------------------------------

BASES = 4
"""Pixels of a line that share a pointer: an address has no more than one register beside it."""


def line(lanes: int, vectors: int, pixels: int) -> Iterator[str]:
    """The function that computes pixels of an output row, again and again with those behind them."""
    grid = [(i, v) for i in range(pixels) for v in range(vectors)]
    terms = ("", " + step", " + 2 * step", " + thrice")
    inputs = [f"p{i - i % BASES} + (c + k{terms[i % BASES]})" for i in range(pixels)]
    yield from _sums(lanes, vectors, inputs)
    yield from _all(f"a{i}_{v}" for i, v in grid)
    yield f"static void line_{vectors}x{pixels}(const csdf_pixels *l, int32_t times)"
    yield "{"
    yield "    const ptrdiff_t step = l->step, run = l->run, pace = l->pace;"
    yield "    const int32_t some = l->some;"
    if pixels >= BASES:
        yield "    ptrdiff_t thrice = 3 * step;"
        yield "    CSDF_KEEP_ADDRESS(thrice);"
    panels, several = [*_panels(lanes, vectors)], _panels_of(lanes, vectors) > 1
    moves = f", w += {2 * PANEL}" if several else ""
    yield "    const ptrdiff_t pitch = l->pitch * (ptrdiff_t)sizeof(float);"
    if panels:
        yield "    const ptrdiff_t panel = l->panel;"
    yield f"    for (ptrdiff_t first = 0; first < {pixels} * (ptrdiff_t)times; first += {pixels}) {{"
    yield "        float *out = l->out + first * pace;"
    yield from _begun("l->bias", lanes, vectors, pixels)
    yield "        if (l->init) {"
    yield "            const float *init = l->init + first * l->init_pace;"
    for i in range(pixels):
        for v in range(vectors):
            load = "LINE_LOAD" if v == vectors - 1 else "csdf_load"
            yield f"            a{i}_{v} += {load}(init + {i} * l->init_pace + {v * lanes});"
    yield "        }"
    yield "        for (int32_t row = 0; row < l->rows; row++) {"
    if several:
        yield "            const float *w = l->weights[row];"
    yield "            const float *z = l->last[row];"
    yield "            const float *p0 = l->at[row] + first * step;"
    for i in range(BASES, pixels, BASES):
        yield f"            const float *p{i} = p0 + {i} * step;"
        yield f"            CSDF_KEEP_ADDRESS(p{i});"
    yield "            ptrdiff_t c = 0;"
    yield f"            for (; c + 2 <= run; c += 2{moves}) {{"
    yield from _indented(panels, 4)
    yield "                PRODUCTS(0) PRODUCTS(1)"
    yield "            }"
    yield "            if (c < run) {"
    yield from _indented(panels, 4)
    yield "                PRODUCTS(0)"
    yield "            }"
    yield "        }"
    yield from _indented(_activation("l->activation"), 1)
    for i in range(pixels):
        for v in range(vectors):
            store = "LINE_STORE" if v == vectors - 1 else "csdf_store"
            yield f"        {store}(out + {i} * pace + {v * lanes}, a{i}_{v});"
    yield "    }"
    yield "}"
    yield "#undef PART"
    yield "#undef PRODUCTS"
    yield "#undef ALL"
    yield ""


def lines(lanes: int) -> Iterator[str]:
    """The header with the lines of an instruction set."""
    shapes = [one for one in BLOCKS[lanes] if not one.most]
    if shapes[-1].vectors > 1:
        shapes.append(Shape(1, shapes[-1].pixels))  # whatever is left
    yield from _FLOATS
    yield from _NEXT
    yield from _ACTIVATIONS
    yield "#define LINE_LOAD(at) (some ? csdf_load_some(at, some) : csdf_load(at))"
    yield "#define LINE_STORE(at, x) if (some) csdf_store_some(at, x, some); else csdf_store(at, x)"
    yield ""
    for shape in shapes:
        for pixels in range(1, shape.pixels + 1):
            yield from line(lanes, shape.vectors, pixels)
    yield "static const csdf_pixels_shape lines[] = {"
    for shape in shapes:
        names = ", ".join(f"line_{shape.vectors}x{n}" for n in range(1, shape.pixels + 1))
        yield f"    {{{shape.vectors}, {shape.pixels}, {{{names}}}}},"
    yield "};"


# --- strips -------------------------------------------------------------------------------------


def strip(kernel: int, stride: int, pixels: int, even: bool, some: bool) -> Iterator[str]:
    """The function that computes one strip of a depthwise layer; even: without padding. some: channels that are fewer than
    a vector has lanes. With kernel 1, rows of the strip are single taps.
    """

    def load(at: str) -> str:
        return f"csdf_load_some({at}, some)" if some else f"csdf_load({at})"

    columns = pixels if kernel == 1 else (pixels - 1) * stride + kernel
    names = [f"a{i}" for i in range(pixels)]
    yield from _all(names)
    yield f"static void {_strip(kernel, stride, pixels, even, some)}("
    yield "    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)"
    yield "{"
    if even:
        yield "    const ptrdiff_t step = s->step;"
    if some:
        yield "    const int some = (int)(end - c);"
    yield "    const ptrdiff_t pace = s->pace;"
    yield "    for (; c < end; c += CSDF_LANES) {"
    yield "        const float *const *t = s->table;"
    yield "        float *out = s->out + c;"
    if even and not some:
        # a line of the cache is as long as a panel: each of its vectors prefetches for some of the pixels
        yield "        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;"
        yield "        if (s->far) {"
        yield f"            FETCH_OUT({pixels}, out + ({pixels} + turn) * pace, pace)"
        yield "        }"
    yield f"        csdf_v {', '.join(names)};"
    yield f"        {' = '.join(names)} = {load('s->bias + c')};"
    yield "        if (s->init) {"
    for i in range(pixels):
        yield f"            a{i} += {load(f's->init + {i} * s->init_pace + c')};"
    yield "        }"
    yield f"        for (int32_t row = 0; row < s->rows; row++, t += {1 if even else columns}) {{"
    yield "            const float *w = s->weights[row] + c;"
    if even:
        yield "            const float *p = t[0] + c;"
    if even and not some:
        # columns that the next strip to the right reads and this one does not
        new = pixels if kernel == 1 else pixels * stride
        yield "            if (s->far) {"
        yield f"                FETCH({new}, p + ({columns} + turn) * step, step)"
        yield "            }"
    for k in range(kernel):
        at = f"w + {k} * s->channels" if k else "w"
        yield f"            const csdf_v w{k} = {load(at)};"
    for column in range(columns):
        taps = [(i, column - i * stride) for i in range(pixels)]
        sums = " ".join(f"CSDF_FMA(a{i}, x{column}, w{k});" for i, k in taps if 0 <= k < kernel)
        at = f"p + {column} * step" if even else f"t[{column}] + c"
        yield f"            const csdf_v x{column} = {load(at)}; {sums}"
    yield "        }"
    yield from _activation("s->activation")
    for i in range(pixels):
        at = f"out + {i} * pace, a{i}"
        yield f"        csdf_store_some({at}, some);" if some else f"        csdf_store({at});"
    yield "    }"
    yield "}"
    yield "#undef ALL"
    yield ""


def _strip(kernel: int, stride: int, pixels: int, even: bool, some: bool) -> str:
    """Its name."""
    kind = f"{'even' if even else 'strip'}{'_some' if some else ''}"
    return f"{kind}_{kernel}_{stride}_{pixels}"


_FORMS = ((False, False), (True, False), (False, True), (True, True))
"""Of a strip: (even, some)."""


def strips() -> Iterator[str]:
    """The header with all strips."""
    yield from _ACTIVATIONS
    yield from _FETCHES
    yield ""
    for some in (False, True):
        if some:
            yield "#if CSDF_LANES > 1"
        for kernel, stride in STRIPS:
            for pixels in range(1, STRIP + 1):
                for even in (False, True):
                    yield from strip(kernel, stride, pixels, even, some)
    yield "#define SOME(name) name"
    yield "#else"
    yield "#define SOME(name) NULL"
    yield "#endif"
    yield "static const csdf_strip_shape strips[] = {"
    for kernel, stride in STRIPS:
        yield f"    {{{kernel}, {stride}, {{"
        for pixels in range(1, STRIP + 1):
            names = [_strip(kernel, stride, pixels, even, some) for even, some in _FORMS]
            yield f"        {{{{{names[0]}, {names[1]}}}, {{SOME({names[2]}), SOME({names[3]})}}}},"
        yield "    }},"
    yield "};"


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
