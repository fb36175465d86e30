"""NAME.h declares what a program calls, and NAME.c contains the tables and the functions behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from csdfgen.emission.macros import wrapped
from csdfgen.emission.names import TYPES, comment
from csdfgen.emission.order import Argument, ProgramTables
from csdfgen.model.describe import sizes
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan


@dataclass(frozen=True, eq=False)
class Unit:
    """A plan that is emitted. name: its name in C; title: elsewhere. constants: name of an output that no layer computes ->
    its name in C. maker: the program that writes the C, with its version. timed: name of the unit whose constants and
    arguments this one shares, if it is emitted only to be timed.
    """

    name: str
    title: str
    plan: Plan
    tables: ProgramTables
    constants: dict[str, str]
    maker: str
    timed: str = ""

    @property
    def actors(self) -> list[str]:
        """The actors with firings that are timed, in the order of their first firings."""
        return list(dict.fromkeys(actor for actor in self.tables.ends if actor))

    @property
    def network(self) -> Network:
        return self.plan.network

    @property
    def macro(self) -> str:
        """The prefix of macros."""
        return self.name.upper()

    @property
    def inputs(self) -> list[Argument]:
        return [one for one in self.tables.arguments if not one.output]

    @property
    def outputs(self) -> list[Argument]:
        """The outputs that layers compute."""
        return [one for one in self.tables.arguments if one.output]

    def results(self) -> list[tuple[str, str, str]]:
        """Every output of the network: its name in C, its type in C, and its name in the network."""
        words = {one.name: one.word for one in self.outputs} | self.constants
        return [
            (words[one.name], TYPES[self.network.whole_form(one)[1]], one.name)
            for one in self.network.outputs
        ]

    def arrays(self) -> list[tuple[str, str]]:
        """Name and type in C of every array that NAME_run takes: inputs, then outputs."""
        found = [(one.word, TYPES[one.tensor.dtype]) for one in self.inputs]
        return found + [(word, kind) for word, kind, _ in self.results()]

    def size(self, word: str) -> str:
        """The macro with the number of elements of an array."""
        return f"{self.macro}_{word.upper()}_SIZE"

    def bytes_of(self, word: str) -> str:
        """The bytes of an array in `data`, as an expression."""
        return f"{self.size(word)} * sizeof *data.{word}"

    def members(self) -> Iterator[str]:
        """The members of `data`, the structure with all arrays; an empty array has one element."""
        for word, kind in self.arrays():
            yield f"    {kind} {word}[{self.size(word)} + !{self.size(word)}];"

    def passed(self) -> str:
        """The members of `data` as NAME_run takes them."""
        return ", ".join(f"data.{word}" for word, _ in self.arrays())

    def parameters(self) -> str:
        """The parameters of NAME_run."""
        found = [
            f"{'const ' * (number < len(self.inputs))}{kind} *{word}"
            for number, (word, kind) in enumerate(self.arrays())
        ]
        return ", ".join(found) or "void"

    def called(self) -> str:
        """The declaration of the function that executes a frame."""
        if not self.timed:
            return f"void {self.name}_run({self.parameters()})"
        parameters = [one for one in (self.parameters(),) if one != "void"]
        return f"void {self.name}_timed({', '.join((*parameters, 'uint64_t *ticks'))})"

    def push(self, argument: Argument) -> str:
        """The declaration of the function that takes a row of an input."""
        name = f"{self.name}_push_row" + (f"_{argument.word}" if len(self.inputs) > 1 else "")
        return f"int {name}(const {TYPES[argument.tensor.dtype]} *row)"


def _row(argument: Argument) -> str:
    """The axes of a row, in words."""
    tensor = argument.tensor
    if tensor.row_axis is None:
        return "the whole array as one row"
    rest = [size for axis, size in enumerate(tensor.shape) if axis != tensor.row_axis]
    return f"rows of {sizes(tuple(rest))}, along axis {tensor.row_axis}"


# NAME.h -------------------------------------------------------------------------------------------


def header(unit: Unit) -> Iterator[str]:
    """NAME.h."""
    name, macro, network, plan = unit.name, unit.macro, unit.network, unit.plan
    guard = f"{macro}_H"
    batch = f", {network.batch} images a call" if network.batch > 1 else ""
    yield f"/* {comment(unit.title)}{batch}, written by {unit.maker}."
    if name != unit.title:
        why = (
            "is no identifier of C"
            if name != f"net_{unit.title}"
            else "names something else in C or in its folder"
        )
        yield f" * '{comment(unit.title)}' {why}; here it is called {name}."
    yield " *"
    yield " * Arrays are those of ONNX: dense, axes in their order, images of a batch one after the other."
    yield f" * Static memory: an arena of {plan.planned_bytes:,} bytes and {unit.tables.blob.size:,} bytes of constants;"
    yield " * one frame at a time. Nothing is allocated; of libraries only libm is used."
    for one in unit.tables.arguments:
        word = "output" if one.output else "input"
        what = sizes(network.whole_shape(one.tensor))
        yield f" * {word} {one.word}: {one.tensor.dtype} {what}, '{comment(one.name)}'; {_row(one)}."
    for word, kind, place in unit.results():
        if place in unit.constants:
            yield f" * output {word}: {kind}, '{comment(place)}', a constant."
    yield " */"
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    yield "#include <stdint.h>"
    yield ""
    yield "#ifdef __cplusplus"
    yield 'extern "C" {'
    yield "#endif"
    yield ""
    yield f"#define {macro}_ARENA_BYTES {plan.planned_bytes}"
    yield f"#define {macro}_WEIGHTS_BYTES {unit.tables.blob.size}"
    yield f"#define {macro}_IMAGES {network.batch}"
    yield ""
    yield "/* SIZE: elements of an array; ROWS: of an image; PER_ROW: elements of a row. */"
    for one in unit.tables.arguments:
        tensor, word = one.tensor, f"{macro}_{one.word.upper()}"
        yield f"#define {word}_SIZE {prod(network.whole_shape(tensor))}"
        yield f"#define {word}_ROWS {tensor.rows}"
        yield f"#define {word}_PER_ROW {tensor.row_elements}"
    for place, word in unit.constants.items():
        yield f"#define {unit.size(word)} {unit.tables.constants[place][0].size}"
    yield ""
    yield "/* A frame. An output that is NULL is not stored. */"
    yield f"{unit.called()};"
    yield ""
    yield from _stream_header(unit)
    yield "#ifdef __cplusplus"
    yield "}"
    yield "#endif"
    yield ""
    yield "#endif"


def _stream_header(unit: Unit) -> Iterator[str]:
    name = unit.name
    if unit.tables.streamed:
        yield f"/* There is no form that takes rows one by one: {unit.tables.streamed}. */"
        yield ""
        return
    yield "/* The same without arrays: rows of the inputs come as they are there, and rows of the outputs"
    yield " * are handed to functions as they are made. A row is dense, the other axes in their order;"
    yield " * what a function gets is gone when it returns. A function that is NULL is not called. */"
    yield f"typedef struct {name}_sink {{"
    yield "    void *user;"
    for one in unit.outputs:
        kind = TYPES[one.tensor.dtype]
        yield f"    void (*{one.word})(void *user, int32_t row, const {kind} *values);"
    yield f"}} {name}_sink;"
    yield ""
    rows = sum(max(1, one.tensor.row_elements) * one.tensor.itemsize for one in unit.outputs)
    yield "/* Begins a frame (of one image); outputs go to the sink, in all frames from now on. A row of every"
    yield f" * output has memory of its own, {rows:,} bytes beside the arena. */"
    yield f"void {name}_begin(const {name}_sink *sink);"
    yield ""
    yield "/* The next row of an input, from the first to the last; what can be computed with it is."
    yield " * 0: another input's row is wanted first, nothing was done; 1: taken; 2: taken, and the frame"
    yield " * is complete: the next row begins the next. */"
    for one in unit.inputs:
        yield f"{unit.push(one)};"
    yield ""
    if len(unit.inputs) > 1:
        names = ", ".join(f"{number} {one.word}" for number, one in enumerate(unit.inputs))
        yield f"/* The input whose row is wanted next: {names}. */"
        yield f"int {name}_wants(void);"
        yield ""


# NAME.c -------------------------------------------------------------------------------------------

_TYPES = """\
/* Pieces of rows: how they lie in the arena and in an array, and where in the arena each row's is. */
typedef struct part {
    csdf_transfer move;
    void *const *rows;
} part;

/* Rows of a port from the first on, in so many pieces. */
typedef struct side {
    int32_t port, first, count;
    const part *parts;
} side;

/* Rows [first, first + count) of a side; with side -1 so many records from the first on. */
typedef struct task {
    int32_t side, first, count;
} task;
"""

_PLACES = """\
extern const unsigned char {name}_weights[{macro}_WEIGHTS_BYTES];

#define A(byte) ((void *)(arena.bytes + (byte)))
#define W(byte) ((const void *)({name}_weights + (byte)))
"""

_ARENA = """\
/* CSDF_ALIGNED: lines of cache. Where the arena and the constants lie can be said: SECTION. */
#ifdef __GNUC__
#define CSDF_ALIGNED __attribute__((aligned(64)))
#ifdef {macro}_ARENA_SECTION
#define CSDF_PLACED __attribute__((section({macro}_ARENA_SECTION)))
#else
#define CSDF_PLACED
#endif
#else
#define CSDF_ALIGNED
#define CSDF_PLACED
#endif

static union {{
    unsigned char bytes[{macro}_ARENA_BYTES + !{macro}_ARENA_BYTES];
    float floats[1];
    double doubles[1];
    int64_t integers[1];
}} arena CSDF_ALIGNED CSDF_PLACED;

"""

_MOVE = """\
/* A row between the arena and an array whose first element of it is at `base`. */
static void move(const side *rows, const csdf_port *form, char *base, int32_t row)
{
    csdf_port port = *form;
    port.base = base;
    for (int32_t k = 0; k < rows->count; k++) {
        csdf_transfer one = rows->parts[k].move;
        one.port = &port;
        one.memory = rows->parts[k].rows[row - rows->first];
        csdf_move(&one);
    }
}
"""


def source(unit: Unit) -> Iterator[str]:
    """NAME.c."""
    tables = unit.tables
    yield f"/* {comment(unit.title)}: tables of a plan by csdfgen, and the order in which they are worked off."
    yield " *"
    yield from arena_map(unit.plan)
    yield " */"
    owner = unit.timed or unit.name
    yield f'#include "{owner}{"_times" if unit.timed else ""}.h"'
    yield ""
    yield '#include "csdf.h"'
    yield ""
    yield "#include <math.h>"
    yield "#include <stddef.h>"
    yield "#include <string.h>"
    yield ""
    if unit.timed:
        yield f"#define arena {owner}_times_arena"
    else:
        yield from _ARENA.format(macro=unit.macro).splitlines()
    yield from _PLACES.format(name=owner, macro=owner.upper()).splitlines()
    yield ""
    yield from _TYPES.splitlines()
    yield ""
    for kernel in (*sorted(tables.kernels), *sorted(tables.copies - tables.kernels)):
        yield f"void {kernel}(const void *step);"
    yield ""
    yield from tables.pools.source()
    yield f"static const task tasks[{len(tables.tasks)}] = {{"
    yield from wrapped(f"{{{one.side},{one.first},{one.count}}}" for one in tables.tasks)
    yield "};"
    yield ""
    yield f"enum {{ ORDER = {len(tables.order)} }};"
    yield f"static const uint{8 * tables.index_bytes}_t order[ORDER] = {{"
    yield from wrapped(map(str, tables.order))
    yield "};"
    yield ""
    if unit.timed:
        numbers = {actor: str(number) for number, actor in enumerate(unit.actors)}
        yield "/* Whose firing a task of the order ends. */"
        yield "enum { NOBODY = 0xffff };"
        yield "static const uint16_t ends[ORDER] = {"
        yield from wrapped(numbers.get(actor, "NOBODY") for actor in tables.ends)
        yield "};"
        yield ""
    if tables.arguments:
        yield "/* Arrays of the caller, images one by one: inputs, then outputs; bytes along each axis. */"
        yield from _ports("arrays", ((one, one.strides) for one in tables.arguments))
        yield ""
        yield from _MOVE.splitlines()
        yield ""
    if tables.branches:
        yield from _LEFT_OUT.splitlines()
    yield from _run(unit)
    if not tables.streamed and not unit.timed:
        yield from _stream(unit)


def _ports(name: str, strides: Iterable[tuple[Argument, tuple[int, ...]]]) -> Iterator[str]:
    """A table of the arguments with the strides of their arrays."""
    rows = [
        f"    {{NULL, csdf_copy_{one.tensor.itemsize}, {{{', '.join(map(str, steps))}}}}},"
        for one, steps in strides
    ]
    yield f"static const csdf_port {name}[{len(rows)}] = {{"
    yield from rows
    yield "};"


def arena_map(plan: Plan) -> Iterator[str]:
    """The places of buffers in the arena, as lines of a comment."""
    yield f" * Arena of {plan.planned_bytes:,} bytes. Blocks of rows of buffers that are there at different times share"
    yield " * bytes; a buffer's lie from the lowest to the highest byte named here, most: what its rows take at a time."
    yield " *"
    yield " *     lowest    highest       most       rows  buffer"
    for buffer in plan.buffers:
        region = plan.regions[buffer.name]
        bytes_of = buffer.sizes or (buffer.row_bytes,) * buffer.rows
        places = [place for place in zip(region.table, bytes_of, strict=True) if place[1]]
        if not places:
            continue
        low, high = min(at for at, _ in places), max(at + size for at, size in places)
        most = min(max(bytes_of) if buffer.sizes else region.size, high - low)
        yield f" * {low:10} {high:10} {most:10} {buffer.rows:10}  {comment(buffer.name)}"


def _run(unit: Unit) -> Iterator[str]:
    tables = unit.tables
    count = len(tables.arguments) * tables.images
    yield unit.called()
    yield "{"
    if tables.arguments:
        yield f"    char *at[{count}];"
    rounds = unit.network.batch // tables.images
    pad = "    "
    if rounds > 1:
        yield f"    for (int32_t image = 0; image < {unit.network.batch}; image += {tables.images}) {{"
        pad *= 2
    for one in tables.arguments:
        for image in range(tables.images):
            first = f"image + {image}" if image else "image"
            place = first if rounds > 1 else str(image)
            shift = f" + (ptrdiff_t)({place}) * {one.tensor.nbytes}"
            shift = "" if unit.network.batch == 1 else shift
            value = f"(char *){one.word}{shift}"
            if one.output and shift:
                value = f"{one.word} ? {value} : NULL"
            yield f"{pad}at[{one.number * tables.images + image}] = {value};"
    if unit.timed:
        yield f"{pad}uint64_t last = ticks ? times_now() : 0;"
    yield f"{pad}for (int32_t k = 0; k < ORDER; k++) {{"
    yield f"{pad}    const task *now = tasks + order[k];"
    if tables.branches:
        yield f"{pad}    if (now->side == -2) {{"
        yield f"{pad}        k += left_out(now);"
        yield f"{pad}        continue;"
        yield f"{pad}    }}"
    if tables.kernels:
        yield f"{pad}    if (now->side < 0)"
        yield f"{pad}        csdf_run(records + now->first, now->count);"
    if tables.arguments:
        yield f"{pad}    for (int32_t row = 0; now->side >= 0 && row < now->count; row++) {{"
        yield f"{pad}        const side *rows = sides + now->side;"
        form = (
            f"arrays + rows->port / {tables.images}" if tables.images > 1 else "arrays + rows->port"
        )
        yield f"{pad}        const csdf_port *form = {form};"
        yield f"{pad}        const int32_t number = now->first + row;"
        yield f"{pad}        if (at[rows->port])"
        yield f"{pad}            move(rows, form, at[rows->port] + number * form->strides[0], number);"
        yield f"{pad}    }}"
    if unit.timed:
        yield f"{pad}    if (ticks && ends[k] != NOBODY) {{"
        yield f"{pad}        const uint64_t at_end = times_now();"
        yield f"{pad}        ticks[ends[k]] += at_end - last;"
        yield f"{pad}        last = at_end;"
        yield f"{pad}    }}"
    yield f"{pad}}}"
    if rounds > 1:
        yield "    }"
    for name, (array, offset) in tables.constants.items():
        if array.size:
            word = unit.constants[name]
            yield f"    if ({word})"
            yield f"        memcpy({word}, W({offset}), {array.nbytes});"
    yield "}"


_LEFT_OUT = """\
/* Tasks to leave out, those of a branch that was not taken. The task with side -2 in front of them is their condition: byte
 * `first` of the arena is the lowest bit of `count`, the other bits say how many they are. */
static int32_t left_out(const task *now)
{
    return (arena.bytes[now->first] != 0) == (now->count & 1) ? 0 : now->count >> 1;
}
"""

_STREAM = """\

static struct {{
    {name}_sink sink;
    int32_t at, done;
}} stream;

/* Goes on until a row of an input is wanted; whether it is one of the next frame. */
static int go_on(void)
{{
    int ended = 0;
    for (;;) {{
        const task *now = tasks + order[stream.at];
        if (now->side >= 0 && sides[now->side].port < {inputs})
            return ended;
{branches}{records}        if (now->side >= 0)
            for (int32_t row = now->first; row < now->first + now->count; row++)
                hand_on(sides + now->side, row);
        if (++stream.at == ORDER) {{
            stream.at = 0;
            ended = 1;
        }}
    }}
}}

static int take(int32_t input, const void *row)
{{
    const task *now = tasks + order[stream.at];
    if (now->side < 0 || sides[now->side].port >= {inputs}) {{ /* before the first frame's first row */
        (void)go_on();
        now = tasks + order[stream.at];
    }}
    if (input < 0 || sides[now->side].port != input)
        return 0;
    move(sides + now->side, single + input, (char *)row, now->first + stream.done);
    if (++stream.done < now->count)
        return 1;
    stream.done = 0;
    if (++stream.at < ORDER)
        return 1 + go_on();
    stream.at = 0;
    return 2;
}}

void {name}_begin(const {name}_sink *sink)
{{
    stream.sink = *sink;
    stream.at = stream.done = 0;
}}
"""


def _stream(unit: Unit) -> Iterator[str]:
    tables, name = unit.tables, unit.name
    yield ""
    yield "/* --- rows one by one ---------------------------------------------------------------------- */"
    yield ""
    yield "/* A row of every port. */"
    yield from _ports("single", ((one, one.row_strides) for one in tables.arguments))
    yield ""
    yield "static void hand_on(const side *rows, int32_t row);"
    records = "== -1" if tables.branches else "< 0"
    text = _STREAM.format(
        name=name,
        inputs=len(unit.inputs),
        records=f"        if (now->side {records})\n            csdf_run(records + now->first, now->count);\n"
        if tables.kernels
        else "",
        branches="        if (now->side == -2)\n            stream.at += left_out(now);\n"
        if tables.branches
        else "",
    )
    yield from text.splitlines()
    for one in unit.inputs:
        yield ""
        yield unit.push(one)
        yield "{"
        yield f"    return take({one.number}, row);"
        yield "}"
    if len(unit.inputs) > 1:
        yield ""
        yield f"int {name}_wants(void)"
        yield "{"
        yield "    (void)take(-1, NULL);"
        yield "    return sides[tasks[order[stream.at]].side].port;"
        yield "}"
    yield ""
    yield "static void hand_on(const side *rows, int32_t row)"
    yield "{"
    yield "    switch (rows->port) {"
    for one in unit.outputs:
        yield f"    case {one.number}:"
        yield f"        if (stream.sink.{one.word}) {{"
        yield f"            static {TYPES[one.tensor.dtype]} values[{max(1, one.tensor.row_elements)}];"
        yield f"            move(rows, single + {one.number}, (char *)values, row);"
        yield f"            (stream.sink.{one.word})(stream.sink.user, row, values);"
        yield "        }"
        yield "        break;"
    yield "    default:"
    yield "        break;"
    yield "    }"
    yield "}"


# Constants ----------------------------------------------------------------------------------------


def weights(unit: Unit) -> Iterator[str]:
    """NAME_weights.c: the constants as source."""
    data = b"".join(bytes(part) for part in unit.tables.blob.parts())
    words = (f"0x{int.from_bytes(data[at : at + 4], 'little'):x}u" for at in range(0, len(data), 4))
    macro, name = unit.macro, unit.name
    yield f"/* Constants of {comment(unit.title)}: packed weights, biases, numbers, as words of 32 bits, the lowest"
    yield " * byte first. */"
    yield "#include <stdint.h>"
    yield ""
    yield "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__"
    yield '#error "the constants are for machines that store the lowest byte first"'
    yield "#endif"
    yield "#ifdef __GNUC__"
    yield f"#ifdef {macro}_WEIGHTS_SECTION"
    yield f"#define CSDF_PLACED __attribute__((aligned(64), section({macro}_WEIGHTS_SECTION)))"
    yield "#else"
    yield "#define CSDF_PLACED __attribute__((aligned(64)))"
    yield "#endif"
    yield "#else"
    yield "#define CSDF_PLACED"
    yield "#endif"
    yield ""
    yield f"extern const uint32_t {name}_weights[{len(data) // 4}];"
    yield f"const uint32_t {name}_weights[{len(data) // 4}] CSDF_PLACED = {{"
    yield from wrapped(words)
    yield "};"
