"""The files around NAME.c: a Makefile, a CMakeLists.txt, and a program that runs the network on files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from csdfgen.backends.native.build import STANDARD, WARNINGS
from csdfgen.backends.native.template import fill_template
from csdfgen.emission.board import qemu
from csdfgen.emission.names import TYPES
from csdfgen.emission.source import TEXT, Unit
from csdfgen.emission.targets import Board, Target

KERNELS = "kernels"
"""The folder with the files of the kernel library."""

OPTIMISED = ("-fno-lto", "-ffunction-sections", "-fdata-sections")
"""Files are compiled separately, because the arena contains values of all types: a kernel must not make assumptions about
what wrote the bytes that it reads. -fno-strict-aliasing would serve too, but convolutions then take twice the time.
"""

_FLOATS = ("float", "double")
_PRINTED = '"%lld\\n", (long long)', '"%.9g\\n", (double)'
"""Arguments of printf before a value: of an integer, and of one of `_FLOATS`."""


def main(unit: Unit, board: Board | None) -> Iterator[str]:
    """main.c: reads inputs from files, of the debugger's host for a board, and writes outputs into one; without a board it
    can also print them, on one also how much stack was used.
    """
    words, alone = [one.word.upper() for one in unit.inputs], len(unit.inputs) == 1
    usage = "".join(f" {word}" for word in words)
    if board is None:
        usage = f"[{words[0]}]" if alone and not unit.earlier else " ".join(words)
    if unit.tables.endless:
        return _main_of_stream(unit, board, usage)
    return fill_template(
        TEXT / ("main.c" if board is None else "main_of_board.c"),
        **unit.words,
        members=unit.members(),
        passed=unit.passed(),
        files=len(words),
        or_none=" && count != 1" if alone else "",
        given="count == 2 && " if alone else "",
        usage=usage,
        inputs=[
            {"position": position, "word": one.word, "bytes": unit.bytes_of(one.word)}
            for position, one in enumerate(unit.inputs, 1 if board is None else 3)
        ],
        results=[
            {
                "word": word,
                "size": unit.size(word),
                "bytes": unit.bytes_of(word),
                "form": _PRINTED[kind in _FLOATS],
            }
            for word, kind, _ in unit.results()
        ],
    )


def _main_of_stream(unit: Unit, board: Board | None, usage: str) -> Iterator[str]:
    """main.c of a stream."""
    alone = len(unit.inputs) == 1, len(unit.outputs) == 1
    return fill_template(
        TEXT / ("main_of_stream.c" if board is None else "main_of_board_stream.c"),
        **unit.words,
        files=len(unit.inputs),
        passes=bool(unit.earlier),
        or_none=" && count != 1" if alone[0] and not unit.earlier else "",
        several=not alone[0],
        usage=usage,
        sinks="".join(f", take_{one.word}" for one in unit.outputs),
        result_count=len(unit.outputs),
        inputs=[
            {
                "number": number,
                "type": TYPES[one.tensor.dtype],
                "per_row": one.tensor.row_elements,
                "least_row": max(1, one.tensor.row_elements),
                "push_name": unit.push(one).split("(")[0].split()[-1],
            }
            for number, one in enumerate(unit.inputs)
        ],
        results=[
            {
                "number": number,
                "word": one.word,
                "type": TYPES[one.tensor.dtype],
                "per_row": one.tensor.row_elements,
                "suffix": "" if alone[1] else f".{one.word}",
                "form": _PRINTED[TYPES[one.tensor.dtype] in _FLOATS],
            }
            for number, one in enumerate(unit.outputs)
        ],
    )


def assembly(unit: Unit) -> Iterator[str]:
    """NAME_weights.S, which includes the constants as a binary file."""
    return fill_template(TEXT / "net_weights.S", **unit.words)


def makefile(
    unit: Unit, target: Target, files: Sequence[str], timed: Sequence[str] = ()
) -> Iterator[str]:
    """Makefile. files: paths of the library's sources. timed: names of the units that the timing program executes."""
    name, board, elf, commands = unit.name, target.board, "", {}
    link = linked = ""
    if board is not None:
        elf, linked = ".elf", f" {name}.map"
        link = f" -nostartfiles -T board.ld -Wl,-Map={name}.map"
        run, run_times = qemu(name, "$(ARGS)"), qemu(f"{name}_times", "-o $@ $(TIMES)")
        commands = {"emulator": board.emulator, "clock": board.clock, "run": run}
    else:
        run_times = f"$(RUN) ./{name}_times -o $@ $(TIMES)"
    times = watched = ""
    if timed:
        times = f"{name}_times{elf}"
        watched = f"times.o {name}_times.o {' '.join(f'{one}.o' for one in timed)}"
        linked += f" {watched} {times}"
    return fill_template(
        TEXT / "Makefile",
        **unit.words,
        **{"emulator": "", **commands},
        compiler=target.compiler,
        archiver=target.archiver,
        flags=" ".join(target.flags),
        warned=" ".join((*STANDARD, "$(OPTIMIZE)", *OPTIMISED, *WARNINGS)),
        level=target.level,
        sizer=target.archiver.removesuffix("ar") + "size",
        objects=" ".join(f"{one.rpartition('.')[0]}.o" for one in files),
        kernels=KERNELS,
        program=name + elf,
        and_times=f" {times}" if timed else "",
        own="main.o board.o" if board else "main.o",
        script=" board.ld" if board else "",
        link=link,
        linked=linked,
        phony=" run" if board else "",
        times=times,
        watched=watched,
        board_object=" board.o" if board else "",
        times_link=link.replace(f"{name}.map", f"{name}_times.map"),
        run_times=run_times,
    )


def cmake(unit: Unit, target: Target, files: Sequence[str]) -> Iterator[str]:
    """CMakeLists.txt."""
    name, board = unit.name, target.board
    assembler = " ASM" if any(one.endswith(".S") for one in files) else ""
    machine = [one for one in target.flags if not one.startswith("-D")]
    script = (
        f" {' '.join(machine)} -nostartfiles -T ${{CMAKE_CURRENT_SOURCE_DIR}}/board.ld"
        if board
        else ""
    )
    return fill_template(
        TEXT / "CMakeLists.txt",
        name=name,
        board=board,
        compiler=target.compiler if target.compiler != "cc" else "",
        assembler=assembler,
        files=files,
        kernels=KERNELS,
        options=";".join((*STANDARD, target.level, *OPTIMISED, *target.flags)),
        assembled=";".join(machine) if assembler else "",
        own="main.c board.c" if board else "main.c",
        flags=" ".join(target.flags),
        program=f"{name}.elf" if board else name,
        script=script,
    )
