"""The files around NAME.c: a Makefile, a CMakeLists.txt, and a program that runs the network on files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from csdfgen.backends.native.build import STANDARD, WARNINGS
from csdfgen.emission.board import qemu, run_rule
from csdfgen.emission.names import comment
from csdfgen.emission.source import Unit
from csdfgen.emission.targets import Target

KERNELS = "kernels"
"""The folder with the files of the kernel library."""

_OPTIMISED = ("-O3", "-fno-lto", "-ffunction-sections", "-fdata-sections")
"""Files are compiled separately, because the arena contains values of all types: a kernel must not make assumptions about
what wrote the bytes that it reads. -fno-strict-aliasing would serve too, but convolutions then take twice the time.
"""

_MAIN = """\
#include "{name}.h"

#include <stdio.h>
#include <string.h>

static struct {{
{arrays}
}} data;

static int fail(const char *what, const char *where)
{{
    fprintf(stderr, "%s: %s\\n", where, what);
    return 1;
}}

static int filled(FILE *file, void *to, size_t size)
{{
    return fread(to, 1, size, file) == size && getc(file) == EOF;
}}

{load}
int main(int count, char **words)
{{
    const char *out = NULL;
    if (count > 2 && strcmp(words[1], "-o") == 0) {{
        out = words[2];
        words += 2;
        count -= 2;
    }}
    const int help = count == 2 && (strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0);
    if (help || (count != {files} + 1{or_none})) {{
        fputs("usage: {name} [-o OUTPUT] {usage}\\n", help ? stdout : stderr);
        return help ? 0 : 2;
    }}
{loads}    {name}_run({arguments});
    if (out != NULL) {{
        FILE *file = fopen(out, "wb");
        if (file == NULL)
            return fail("cannot be written", out);
        int written = 1;
{stores}        if (fclose(file) != 0 || !written)
            return fail("cannot be written", out);
        return 0;
    }}
{prints}    return fflush(stdout) == 0 ? 0 : 1;
}}
"""

_LOAD = """\
static int load(const char *path, void *to, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail("cannot be read", path);
    const int whole = filled(file, to, size);
    fclose(file);
    return whole ? 0 : fail("does not have the bytes of the input", path);
}
"""


def main(unit: Unit) -> Iterator[str]:
    """main.c: reads inputs from files, and writes outputs into one or prints them."""
    name, results = unit.name, unit.results()
    words = [one.word for one in unit.inputs]
    loads = [
        f"    if (load(words[{number}], data.{word}, {unit.bytes_of(word)}) != 0)\n        return 1;\n"
        for number, word in enumerate(words, 1)
    ]
    if len(words) == 1:
        loads = [
            f"    if (count == 1 && !filled(stdin, data.{words[0]}, {unit.bytes_of(words[0])}))\n"
            '        return fail("does not have the bytes of the input", "standard input");\n',
            loads[0].replace("if (", "if (count == 2 && ", 1),
        ]
    stores = [
        f"        written &= fwrite(data.{word}, 1, {unit.bytes_of(word)}, file) == {unit.bytes_of(word)};\n"
        for word, _, _ in results
    ]
    prints = []
    for word, kind, _ in results:
        form = (
            '"%.9g\\n", (double)' if kind in ("float", "double") else '"%lld\\n", (long long)'
        ) + f"data.{word}[k]"
        prints.append(
            f"    for (size_t k = 0; k < {unit.size(word)}; k++)\n        printf({form});\n"
        )
    usage = " ".join(words).upper()
    text = _MAIN.format(
        name=name,
        arrays="\n".join(unit.members()),
        load=_LOAD if words else "",
        files=len(words),
        or_none=" && count != 1" if len(words) == 1 else "",
        usage=f"[{usage}]" if len(words) == 1 else usage,
        loads="".join(loads),
        arguments=unit.passed(),
        stores="".join(stores),
        prints="".join(prints),
    )
    if not words:
        start, end = text.index("static int filled"), text.index("int main(")
        text = text[:start] + text[end:]
    yield f"/* Runs {comment(unit.title)} on raw files: one array each, as {name}.h says. Without -o the values of the"
    yield " * outputs are printed, one a line. */"
    yield from text.splitlines()


def assembly(unit: Unit) -> Iterator[str]:
    """NAME_weights.S, which includes the constants as a binary file."""
    yield f"/* Constants of {comment(unit.title)}: the bytes of {unit.name}_weights.bin. */"
    yield "#ifdef __APPLE__"
    yield f"#define NAME _{unit.name}_weights"
    yield "    .const"
    yield "#else"
    yield f"#define NAME {unit.name}_weights"
    yield f"#ifdef {unit.macro}_WEIGHTS_SECTION"
    yield f'    .section {unit.macro}_WEIGHTS_SECTION, "a"'
    yield "#else"
    yield "    .section .rodata"
    yield "#endif"
    yield "#endif"
    yield "    .globl NAME"
    yield "    .balign 64"
    yield "NAME:"
    yield f'    .incbin "{unit.name}_weights.bin"'
    yield "#ifdef __ELF__"
    yield '    .section .note.GNU-stack, "", %progbits'
    yield "#endif"


def makefile(
    unit: Unit, target: Target, files: Sequence[str], timed: Sequence[str] = ()
) -> Iterator[str]:
    """Makefile. files: paths of the library's sources. timed: names of the units that the timing program executes."""
    name = unit.name
    objects = " ".join(f"{one.rpartition('.')[0]}.o" for one in files)
    program = name if target.board is None else f"{name}.elf"
    yield f"# Builds lib{name}.a, and the program {program} of main.c; make -j4 compiles four files at a time."
    yield "# -fno-lto: the arena holds values of any type, of which no kernel is to know."
    yield f"CC = {target.compiler}"
    yield f"AR = {target.archiver}"
    yield f"TARGET = {' '.join(target.flags)}"
    yield f"CFLAGS = {' '.join(STANDARD)} {' '.join(_OPTIMISED)} {' '.join(WARNINGS)}"
    yield "LDFLAGS = -Wl,--gc-sections"
    yield ""
    yield f"OBJECTS = {objects}"
    yield ""
    times = f"{name}_times{'' if target.board is None else '.elf'}" if timed else ""
    yield f"all: lib{name}.a {program}{f' {times}' if times else ''}"
    yield ""
    own = "main.o" if target.board is None else "main.o board.o"
    script = "" if target.board is None else " board.ld"
    link = "" if target.board is None else f" -nostartfiles -T board.ld -Wl,-Map={name}.map"
    yield f"{program}: {own} lib{name}.a{script}"
    yield f"\t$(CC) $(TARGET) $(CFLAGS) $(LDFLAGS){link} -o $@ {own} lib{name}.a -lm"
    yield ""
    if target.board is not None:
        yield from run_rule(name, target.board)
        yield ""
    watched = f"times.o {name}_times.o {' '.join(f'{one}.o' for one in timed)}" if timed else ""
    if timed:
        yield from _times_rules(name, target, times, watched, link)
    yield f"lib{name}.a: $(OBJECTS)"
    yield "\trm -f $@"
    yield "\t$(AR) rcs $@ $(OBJECTS)"
    yield ""
    yield "%.o: %.c"
    yield f"\t$(CC) $(TARGET) $(CFLAGS) -I. -I{KERNELS} -c -o $@ $<"
    yield ""
    yield "%.o: %.S"
    yield "\t$(CC) $(TARGET) -I. -c -o $@ $<"
    yield ""
    yield f"$(OBJECTS) {own}: {name}.h"
    if timed:
        yield f"{watched}: {name}.h {name}_times.h times.h"
    yield ""
    yield "clean:"
    linked = "" if target.board is None else f" {name}.map"
    linked += f" {watched} {times}" if timed else ""
    yield f"\trm -f $(OBJECTS) {own} lib{name}.a {program}{linked}"
    yield ""
    if timed:
        yield ".DELETE_ON_ERROR:"
    yield f".PHONY: all clean{'' if target.board is None else ' run'}"


def _times_rules(name: str, target: Target, program: str, objects: str, link: str) -> Iterator[str]:
    """Rules for the program that times plans, and for its result."""
    yield f"# Of {name}_times: words behind `-o result.json`, such as -n 3."
    yield "TIMES ="
    board = target.board
    if board is not None:
        yield "# Cycles a second."
        yield f"CLOCK = {board.clock}"
        objects += " board.o"
    link = link.replace(f"{name}.map", f"{name}_times.map")
    yield ""
    yield f"{program}: {objects} lib{name}.a{'' if board is None else ' board.ld'}"
    yield f"\t$(CC) $(TARGET) $(CFLAGS) $(LDFLAGS){link} -o $@ {objects} lib{name}.a -lm"
    yield ""
    yield f"result.json: {program}"
    if board is None:
        yield f"\t$(RUN) ./{program} -o $@ $(TIMES)"
    else:
        yield f"\t{qemu(f'{name}_times', '-o $@ $(TIMES)')}"
    yield ""
    if board is not None:
        yield "times.o: times.c board.h"
        yield "\t$(CC) $(TARGET) $(CFLAGS) -DTIMES_CLOCK_HZ=$(CLOCK)u -I. -c -o $@ times.c"
        yield ""


def cmake(unit: Unit, target: Target, files: Iterable[str]) -> Iterator[str]:
    """CMakeLists.txt."""
    name = unit.name
    files = list(files)
    yield "cmake_minimum_required(VERSION 3.10)"
    if target.board is not None:
        yield "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)"
    if target.compiler != "cc":
        yield "if(NOT CMAKE_C_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE)"
        if target.board is not None:
            yield "  set(CMAKE_SYSTEM_NAME Generic)"
        yield f"  set(CMAKE_C_COMPILER {target.compiler})"
        yield "endif()"
    assembler = " ASM" if any(one.endswith(".S") for one in files) else ""
    yield f"project({name} C{assembler})"
    yield ""
    yield f"add_library({name} STATIC"
    for one in files:
        yield f"  {one}"
    yield ")"
    yield f"target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}} PRIVATE {KERNELS})"
    options = " ".join((*STANDARD, *_OPTIMISED, *target.flags))
    yield f"set_target_properties({name} PROPERTIES C_EXTENSIONS OFF)"
    yield f"target_compile_options({name} PRIVATE $<$<COMPILE_LANGUAGE:C>:{options.replace(' ', ';')}>)"
    machine = ";".join(one for one in target.flags if one.startswith("-m"))
    if assembler and machine:
        yield f"target_compile_options({name} PRIVATE $<$<COMPILE_LANGUAGE:ASM>:{machine}>)"
    yield f"target_link_libraries({name} PUBLIC m)"
    board = target.board
    own = "main.c" if board is None else "main.c board.c"
    program = name if board is None else f"{name}.elf"
    script = (
        ""
        if board is None
        else f" {machine.replace(';', ' ')} -nostartfiles -T ${{CMAKE_CURRENT_SOURCE_DIR}}/board.ld"
    )
    yield ""
    yield f"add_executable({name}_main {own})"
    yield f"target_compile_options({name}_main PRIVATE -std=c99 {' '.join(target.flags)})"
    yield f"set_target_properties({name}_main PROPERTIES OUTPUT_NAME {program})"
    yield f"target_link_libraries({name}_main PRIVATE {name}{script} -Wl,--gc-sections)"
