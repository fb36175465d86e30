"""NAME.h declares what a program calls, and NAME.c contains the tables and the functions behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import lcm, prod
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.backends.native.template import fill_template
from csdfgen.emission.macros import wrap_words
from csdfgen.emission.names import TYPES, comment
from csdfgen.emission.order import Argument, ProgramTables
from csdfgen.model.describe import sizes
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import Array

_STACK = 8192 + 1024
"""Bytes of the stack: what csdf.h says of kernels, and what their callers take beside a step."""

TEXT = Path(__file__).parent / "text"
"""The templates of all files of a network."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A plan that is emitted. name: its name in C; title: elsewhere. constants: name of an output that no layer computes ->
    its name in C. maker: the program that writes the C, with its version. timed: name of the unit whose constants and
    arguments this one shares, if it is emitted only to be timed. earlier: passes over all rows of a stream, whose outputs are
    later inputs of those behind them and of this unit; owner: of such a pass, the name of the unit that it is for.
    """

    name: str
    title: str
    plan: Plan
    tables: ProgramTables
    constants: dict[str, str]
    maker: str
    timed: str = ""
    owner: str = ""
    earlier: tuple[Unit, ...] = ()

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
    def words(self) -> dict[str, str]:
        """Names that templates have in common."""
        title = comment(self.title)
        return {"name": self.name, "macro": self.macro, "title": title, "maker": self.maker}

    @property
    def inputs(self) -> list[Argument]:
        """Those that the caller gives."""
        found = [one for one in self.tables.arguments if not one.output]
        return found[: len(self.earlier[0].inputs)] if self.earlier else found

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena, which passes have by turns."""
        return max(one.plan.planned_bytes for one in (self, *self.earlier))

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

    def parameters(self, *before: str) -> str:
        """The parameters of a function that executes a frame: the arrays, behind others."""
        found = [
            f"{'const ' * (number < len(self.inputs))}{kind} *{word}"
            for number, (word, kind) in enumerate(self.arrays())
        ]
        return ", ".join((*before, *found)) or "void"

    def called(self, own: bool = True) -> str:
        """The declaration of the function that executes a frame. own: in memory of its own, or of other plans that are timed."""
        if self.timed:
            parameters = [one for one in (self.parameters(),) if one != "void"]
            return f"void {self.name}_timed({', '.join((*parameters, 'uint64_t *ticks'))})"
        if own:
            return f"void {self.name}_run({self.parameters()})"
        return f"void {self.name}_run_in({self.parameters(f'{self.name}_t *net')})"

    def push(self, argument: Argument, stream: bool = False) -> str:
        """The declaration of the function that takes a row of an input. stream: of a stream that the caller names."""
        name = f"{self.name}{'_stream' * stream}_push_row"
        name += f"_{argument.word}" if len(self.inputs) > 1 else ""
        before = f"{self.name}_stream *stream, " if stream else ""
        return f"int {name}({before}const {TYPES[argument.tensor.dtype]} *row)"


def _row(argument: Argument) -> str:
    """The axes of a row, in words."""
    tensor = argument.tensor
    if tensor.row_axis is None:
        return "the whole array as one row"
    rest = [size for axis, size in enumerate(tensor.shape) if axis != tensor.row_axis]
    return f"rows of {sizes(tuple(rest))}, along axis {tensor.row_axis}"


def _sizes(unit: Unit, one: Argument) -> str:
    """The sizes of an array, with N for the rows of a stream."""
    shape = unit.network.whole_shape(one.tensor)
    if not unit.tables.endless:
        return sizes(shape)
    return "x".join("N" if k == one.tensor.row_axis else str(n) for k, n in enumerate(shape))


def _argument(unit: Unit, one: Argument) -> dict[str, Any]:
    """An argument of the network, as templates know it."""
    tensor, network = one.tensor, unit.network
    return {
        "number": one.number,
        "word": one.word,
        "upper": one.word.upper(),
        "way": "output" if one.output else "input",
        "type": TYPES[tensor.dtype],
        "dtype": tensor.dtype,
        "itemsize": tensor.itemsize,
        "sizes": _sizes(unit, one),
        "elements": prod(network.whole_shape(tensor)),
        "place": comment(one.name),
        "row": _row(one) + _in_place(unit, one),
        "rows": tensor.rows,
        "per_row": tensor.row_elements,
        "least_row": max(1, tensor.row_elements),
        "row_bytes": tensor.row_elements * tensor.itemsize,
        "strides": ", ".join(map(str, one.strides)),
        "row_strides": ", ".join(map(str, one.row_strides)),
        "row_number": _row_number(unit, one),
        "held": dict(enumerate(_held(unit))).get(one.number, 0),
        "given": one.output or one in unit.inputs,
        "push": unit.push(one),
        "stream_push": unit.push(one, stream=True),
        "push_name": unit.push(one, stream=True).split("(")[0].split()[-1],
    }


def _held(unit: Unit) -> Sequence[int]:
    """How many rows of each input wait for the end of a stream; () if none do."""
    return unit.tables.loop.held if unit.tables.loop else ()


def _in_place(unit: Unit, one: Argument) -> str:
    """Whose array an output may be written to, in words."""
    inputs = unit.tables.list_in_place(one) if one.output and unit.tables.loop is None else []
    return (
        f"; it may be the array of {' or '.join(other.word for other in inputs)}" if inputs else ""
    )


def _row_number(unit: Unit, one: Argument) -> str:
    """The number of the row that is handed on, in C; `row` is that of an image."""
    loop = unit.tables.loop
    if loop is None:
        return "row"
    return f"({_row_type(unit)})row + stream->turns * {loop.turn[one.number]}"


def _row_type(unit: Unit) -> str:
    """The type in C of the number of a row."""
    return "uint64_t" if unit.tables.endless else "int32_t"


def _common(unit: Unit) -> dict[str, Any]:
    """What the header and the source both know."""
    arguments = [_argument(unit, one) for one in unit.tables.arguments]
    inputs, outputs = (
        [one for one in arguments if one["way"] == way] for way in ("input", "output")
    )
    names = ", ".join(f"{number} {one.word}" for number, one in enumerate(unit.inputs))
    endless, several = unit.tables.endless, len(unit.inputs) > 1
    return {
        **unit.words,
        "endless": endless,
        "repeats": unit.tables.loop is not None,
        "row_type": _row_type(unit),
        "held_back": _held(unit),
        "counted": unit.tables.loop is not None and unit.tables.loop.counted,
        "input_count": len(inputs),
        "called": unit.called(own=False),
        "static_called": unit.called(),
        "arguments": arguments,
        "inputs": inputs,
        "outputs": outputs,
        "several": names if several else "",
        "pushed": [one for one in inputs if one["given"]],
        "owner": unit.owner,
        "elsewhere": unit.timed or unit.owner,
        "take": f"int {unit.name}_stream_take" if unit.owner else "static int take",
        "wants": f"int {unit.name}_stream_wants" if unit.owner else "static int wants",
        "chosen": several or unit.owner or unit.earlier,
        "wanting": "wants_in_pass" if unit.earlier else "wants",
        **_passes(unit),
        "callbacks": [_callback(unit, *one) for one in unit.tables.functions.items()],
    }


def _passes(unit: Unit) -> dict[str, Any]:
    """The passes over all rows of a stream, the rows of the results that each keeps, and which of them it takes."""
    units, earlier, made = (*unit.earlier, unit), list[dict[str, Any]](), dict[str, Any]()
    for number, one in enumerate(unit.earlier, 1):
        words = {output.name: f"pass{number}_{output.word}" for output in one.outputs}
        kept = "".join(f", keep_{word}" for word in words.values())
        earlier.append({"pass": one.name, "number": number, "kept": kept})
        made |= {k.name: {**_argument(one, k), "word": words[k.name]} for k in one.outputs}
    taken = []
    for one in units:
        inputs = [k.name for k in one.tables.arguments if not k.output][len(unit.inputs) :]
        places = (
            f"offsetof({unit.name}_stream, passes.{made[k]['word']}), {made[k]['row_bytes']}"
            for k in inputs
        )
        taken.append([f"{{{place}}}" for place in places] or ["{0, 0}"])
    return {
        "passes": len(units) * bool(earlier),
        "earlier": earlier,
        "made": made.values(),
        "public": len(unit.inputs),
        "most_taken": max(map(len, taken)),
        "taken": [{"text": f"{{{', '.join(some)}}},"} for some in taken],
        "all_ends": lcm(*(one.tables.loop.ends for one in units if one.tables.loop)),
    }


def _callback(unit: Unit, kernel: str, function: tuple[str, tuple[Array, ...]]) -> dict[str, Any]:
    """A function of the user, as templates know it."""
    name, (*given, made) = function
    words = [*zip("abc", given, strict=False)]
    kinds = [f"const {TYPES[np.dtype(one.dtype).name]} *{word}" for word, one in words]
    return {
        "kernel": kernel,
        "function": f"{unit.name}_{name}",
        "parameters": ", ".join((*kinds, f"{TYPES[np.dtype(made.dtype).name]} *out")),
        "passed": ", ".join(f"one->{word}" for word in (*(word for word, _ in words), "out")),
        "bytes": prod(made.shape) * np.dtype(made.dtype).itemsize,
        "takes": ", ".join(f"{word} {sizes(one.shape)}" for word, one in words),
        "makes": sizes(made.shape),
    }


def header(unit: Unit, check: bool = False) -> Iterator[str]:
    """NAME.h. check: it declares a self-test."""
    name, network, constants = unit.name, unit.network, unit.tables.blob.size
    why = "is no identifier of C"
    if name == f"net_{unit.title}":
        why = "names something else in C or in its folder"
    if name == f"{unit.title}_net":
        why = "begins names of a network without '_stream'"
    rows = sum(max(1, one.tensor.row_elements) * one.tensor.itemsize for one in unit.outputs)
    return fill_template(
        TEXT / "net.h",
        **_common(unit),
        batch=f", {network.batch} images a call" if network.batch > 1 else "",
        renamed=why if name != unit.title else "",
        arena=f"{unit.arena_bytes:,}",
        weights=f"{constants:,}",
        constants=[
            {
                "word": word,
                "type": kind,
                "place": comment(place),
                "size": unit.size(word),
                "elements": unit.tables.constants[place][0].size,
            }
            for word, kind, place in unit.results()
            if place in unit.constants
        ],
        arena_bytes=unit.arena_bytes,
        weights_bytes=constants,
        images=network.batch,
        check=check,
        stack_bytes=_STACK + max(one.tables.pools.largest_call() for one in (unit, *unit.earlier)),
        streamed=unit.tables.streamed,
        row_bytes=f"{rows:,}",
        frame="stream" if unit.tables.endless else "frame",
        memory="static memory" if unit.tables.endless else f"the memory of {name}_run",
    )


def source(unit: Unit) -> Iterator[str]:
    """NAME.c."""
    tables, batch = unit.tables, unit.network.batch
    kernels = (*sorted(tables.kernels), *sorted(tables.copies - tables.kernels))
    numbers = {actor: str(number) for number, actor in enumerate(unit.actors)}
    owner, rounds = unit.timed or unit.owner or unit.name, batch // tables.images
    return fill_template(
        TEXT / "net.c",
        **_common(unit),
        header=f"{owner}_times" if unit.timed else owner,
        owns=owner,
        owner_macro=owner.upper(),
        arena_map=arena_map(unit.plan),
        timed=unit.timed,
        declared=[
            f"void {kernel}(const void *step);"
            for kernel in kernels
            if kernel not in tables.functions
        ],
        kernels=tables.kernels,
        functions=tables.pools.functions(),
        more="".join(f", {word}" for word, _ in unit.arrays()),
        unused=not (unit.timed or tables.kernels or tables.arguments),
        pools=tables.pools.source(),
        counts=tables.pools.most_counts,
        firing_count=len(tables.firings),
        firings=_list_by_actor(tables, tables.firings, lambda one: f"FIRE({one.call},{one.first})"),
        task_count=len(tables.tasks),
        tasks=_list_by_actor(
            tables, tables.tasks, lambda one: f"{{{one.side},{one.first},{one.count}}}"
        ),
        order_count=len(tables.order),
        call_bits=tables.call_bits,
        **{f"{kind}_bits": bits for kind, bits in tables.bits.items()},
        order=wrap_words(map(str, tables.order)),
        ends=wrap_words(numbers.get(actor, "NOBODY") for actor in tables.ends),
        ports=len(tables.arguments),
        branches=tables.branches,
        pointer_count=len(tables.arguments) * tables.images,
        rounds=rounds > 1,
        batch=batch,
        images=tables.images,
        frame=_frame(unit, rounds > 1),
        constants=[
            {"word": unit.constants[name], "offset": offset, "bytes": array.nbytes}
            for name, (array, offset) in tables.constants.items()
            if array.size
        ],
        streams=not tables.streamed and not unit.timed,
        moves="now && now->side >= 0" if tables.branches else "now",
        **_loop(tables),
    )


def _loop(tables: ProgramTables) -> dict[str, Any]:
    """Where firings repeat, and the ends of a stream."""
    loop = tables.loop
    if loop is None:
        return {}
    ends = (
        f"{{{one.at}, {one.turns}, {one.own}, {one.first}, {one.stop}, {one.rows}, {{{', '.join(map(str, one.held))}}}}}"
        for one in loop.endings
    )
    return {
        "loop_start": loop.start,
        "loop_stop": loop.stop,
        "held_rows": loop.held[0] if loop.held else 0,
        "turn_count": loop.more,
        "turn_rows": ", ".join(map(str, loop.turn)),
        "turn_first": loop.turn[0],
        "ending_count": len(loop.endings),
        "endings": wrap_words(ends),
        "piece_count": len(loop.pieces),
        "pieces": wrap_words(f"{{{a},{b},{c}}}" for a, b, c in loop.pieces),
    }


def _list_by_actor(
    tables: ProgramTables, entries: Iterable[Any], text: Callable[[Any], str]
) -> Iterator[str]:
    """Firings or tasks with the layers that they are of."""
    for actor, some in groupby(entries, lambda one: tables.actors.get(one, "a condition")):
        yield from wrap_words(map(text, some), end=f"  /* {comment(actor)} */")


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


def _frame(unit: Unit, rounds: bool) -> Iterator[str]:
    """The lines that execute a frame. rounds: image by image, so many at a time."""
    tables = unit.tables
    pointers = []
    for one in tables.arguments:
        for image in range(tables.images):
            first = f"image + {image}" if image else "image"
            place = first if rounds else str(image)
            shift = f" + (ptrdiff_t)({place}) * {one.tensor.nbytes}"
            shift = "" if unit.network.batch == 1 else shift
            value = f"(char *){one.word}{shift}"
            if one.output and shift:
                value = f"{one.word} ? {value} : NULL"
            pointers.append({"number": one.number * tables.images + image, "value": value})
    return fill_template(
        TEXT / "frame.c",
        pointers=pointers,
        timed=unit.timed,
        branches=tables.branches,
        repeats=tables.loop is not None,
        shift=" + turn * turn_rows[rows->port]" if tables.loop is not None else "",
        kernels=tables.kernels,
        base=f"{unit.timed}_times_arena.bytes" if unit.timed else "net->arena.bytes",
        share=f" / {tables.images}" if tables.images > 1 else "",
    )


def weights(unit: Unit) -> Iterator[str]:
    """NAME_weights.c: the constants as source."""
    data = b"".join(bytes(part) for part in unit.tables.blob.parts())
    words = (f"0x{int.from_bytes(data[at : at + 4], 'little'):x}u" for at in range(0, len(data), 4))
    return fill_template(
        TEXT / "net_weights.c", **unit.words, count=len(data) // 4, words=wrap_words(words)
    )
