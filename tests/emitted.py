"""How does a test run emitted code? It is compiled with every warning an error, as a program on files
and as one that pushes rows; for a machine without an operating system by its Makefile, under qemu.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import numpy as np

from csdfgen.emission.emit import emit
from csdfgen.emission.names import PARAMETERS, TYPES, identifier, identifiers
from csdfgen.emission.targets import TARGETS
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan

__all__ = ["Program", "compile_source", "differences"]

STRICT = ("-Werror", "-Wcast-align=strict", "-Wstrict-aliasing")
"""Flags beside those of the Makefile."""

_OBJECTS = TemporaryDirectory()
"""Where kernels are kept that were compiled by this process, if it is the only one of the run."""


def kept(folder: Path, key: str) -> Path:
    """Where all processes of a run of pytest keep what was compiled. folder: of a test; key: of content and command."""
    of_worker = (one for one in folder.parents if one.name.startswith("popen-gw"))
    run = next((one.parent / "objects" for one in of_worker), Path(_OBJECTS.name))
    run.mkdir(exist_ok=True)
    return run / key


def compile_source(folder: Path, source: str, command: Sequence[str]) -> tuple[str, str]:
    """The object of a source in a folder, and what the compiler said; kernels that were compiled before are taken from there."""
    path = folder / source
    made = path.with_suffix(".o")
    before = kept(
        folder, sha256(b"\0".join([path.read_bytes(), *map(str.encode, command)])).hexdigest()
    )
    if source.startswith("kernels/") and before.exists():
        made.write_bytes(before.read_bytes())
        return str(made), ""
    said = run(*command, "-c", "-o", str(made), source, folder=folder)
    if source.startswith("kernels/") and not said:
        with NamedTemporaryFile(dir=before.parent, delete=False) as file:
            file.write(made.read_bytes())
        Path(file.name).replace(before)  # at once: another process may look
    return str(made), said


class Program:
    """A plan, emitted into a folder and built, by the commands of its Makefile; kernels that another
    program has built the same way are taken from there.

    linked: flags for the linker. start: what a program is run by. machine: flags instead of the target's. functions: text of
    functions.c, which it calls.
    A bare machine's program has no form by rows; `said` is what it printed.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        title: str = "small",
        target: str = "generic",
        literals: int = 2**20,
        linked: Sequence[str] = (),
        start: Sequence[str] = (),
        machine: str | None = None,
        functions: str = "",
    ) -> None:
        self.plan, self.network, self.folder = plan, plan.network, folder
        self.start, self.linked = start, linked
        self.bare, self.said = TARGETS[target].board is not None, ""
        self.emitted = emit(plan, title, folder, target=target, literals=literals)
        self.name = self.emitted.name
        self.variables = dict(
            line.split(" = ", 1)
            for line in (folder / "Makefile").read_text().splitlines()
            if " = " in line
        )
        flags, level = self.variables["CFLAGS"], self.variables["OPTIMIZE"]
        self.variables["CFLAGS"] = flags.replace("$(OPTIMIZE)", level)
        # what a compiler warns of while it optimises is found with the target's own flags
        # (and intrinsics are macros there, whose conversions would be ours)
        ours = machine is None or self.bare
        self._level = ("-O1",) if ours else ("-O0", "-Wno-conversion", "-Wno-sign-conversion")
        if machine is not None:
            self.variables["TARGET"] = machine
        own = ["functions.c"] if functions else []
        for one in own:
            (folder / one).write_text(functions)
        self._objects = [self._compiled(name) for name in (*self._sources(), *own)]
        self._link("main")

    def _sources(self) -> list[str]:
        names = sorted(self.emitted.files)
        without = ("main.c", "board.c")
        return [name for name in names if name.endswith((".c", ".S")) and name not in without]

    def _compiled(self, source: str) -> str:
        """The object of a source; no compiler may say a word."""
        path = self.folder / source
        command = [*self.variables["CC"].split(), *self.variables["TARGET"].split()]
        if path.suffix == ".c":
            command += [
                *self.variables["CFLAGS"].replace("$(OPTIMIZE)", "").split(),
                *STRICT,
                *self._level,
                "-Ikernels",
            ]
        made, said = compile_source(self.folder, source, [*command, "-I."])
        assert not said
        return made

    def _link(self, source: str) -> None:
        if self.bare:
            assert not self.make("all")
            return
        command = [*self.variables["CC"].split(), *self.variables["TARGET"].split()]
        command += [*self.variables["LDFLAGS"].split(), *self.linked, "-o", source]
        objects = [self._compiled(f"{source}.c"), *self._objects]
        assert not run(*command, *objects, "-lm", folder=self.folder)

    def make(self, *words: str) -> str:
        """What `make` says on stderr; objects that are there are not made again."""
        flags = f"CFLAGS={self.variables['CFLAGS']} -O1 -Werror"
        return run("make", "-s", flags, *self.linked, *words, folder=self.folder)

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a frame by `NAME_run`."""
        return self._started("main", feeds)

    def streamed(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The same by rows, image after image; constant outputs are zeros."""
        (self.folder / "rows.c").write_text("\n".join(driver(self.name, self.network)) + "\n")
        self._link("rows")
        return self._started("rows", feeds)

    def _started(self, program: str, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        files = []
        for number, tensor in enumerate(self.network.inputs):
            files.append(f"input{number}.bin")
            array = np.ascontiguousarray(feeds[tensor.name], tensor.dtype)
            (self.folder / files[-1]).write_bytes(array.tobytes())
        (self.folder / "output.bin").unlink(missing_ok=True)
        words = "-o", "output.bin", *files
        if self.bare:
            self.said = self.make("run", f"ARGS={' '.join(words)}")
        else:
            self.execute(program, *words)
        return self.parsed((self.folder / "output.bin").read_bytes())

    def execute(self, program: str, *words: str) -> None:
        """Run a program of the folder; it must succeed."""
        run(*self.start, f"./{program}", *words, folder=self.folder)

    def link(self, source: str) -> None:
        """Make a program of a source that was put into the folder."""
        self._link(source)

    def parsed(self, data: bytes) -> dict[str, np.ndarray]:
        """All outputs, one after the other."""
        found = {}
        for output in self.network.outputs:
            if output.tensor is None:
                assert output.constant is not None
                shape, kind = output.constant.shape, output.constant.dtype
            else:
                shape, kind = self.network.whole_shape(output.tensor), np.dtype(output.tensor.dtype)
            size = int(np.prod(shape)) * kind.itemsize
            found[output.name] = np.frombuffer(data[:size], kind).reshape(shape)
            data = data[size:]
        assert not data
        return found


def run(*command: str, folder: Path | None = None) -> str:
    """What a command says on stderr; it must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stderr


def driver(title: str, network: Network) -> Iterator[str]:
    """A program like main.c, that pushes rows: of every input in turn, as they are wanted."""
    keys = [tensor.name for tensor in network.inputs] + [one.name for one in network.outputs]
    name = identifier(title)
    words = identifiers(keys, without=[name, *PARAMETERS])
    inputs = list(zip(words, network.inputs, strict=False))
    yield f'#include "{name}.h"\n#include <stdio.h>\n#include <string.h>\nstatic int32_t image;'
    outputs = []
    for word, output in zip(words[len(inputs) :], network.outputs, strict=True):
        size = f"{name.upper()}_{word.upper()}_SIZE"
        if output.tensor is None:
            assert output.constant is not None
            yield f"static {TYPES[output.constant.dtype.name]} out_{word}[{size} + 1];"
            outputs.append((word, size, None))
            continue
        kind = TYPES[output.tensor.dtype]
        outputs.append((word, size, output.tensor))
        outer, rows, inner = split(output.tensor.shape, output.tensor.row_axis)
        yield f"static {kind} out_{word}[{size} + 1];"
        yield f"static void get_{word}(void *user, int32_t row, const {kind} *values) {{"
        yield "    (void)user;"
        yield f"    for (int o = 0; o < {outer}; o++) for (int i = 0; i < {inner}; i++)"
        yield f"        out_{word}[((image * {outer} + o) * {rows} + row) * {inner} + i] = values[o * {inner} + i]; }}"
    yield "int main(int count, char **words) { (void)count; int state = 1; FILE *file;"
    for number, (word, tensor) in enumerate(inputs):
        kind, size = TYPES[tensor.dtype], f"{name.upper()}_{word.upper()}"
        yield f"    static {kind} in_{word}[{size}_SIZE + 1], row_{word}[{size}_PER_ROW + 1];"
        yield f'    int next_{word} = 0; file = fopen(words[{3 + number}], "rb");'
        yield f"    if (!fread(in_{word}, 1, sizeof in_{word}, file)) return 1;"
    yield f"    {name}_sink sink; memset(&sink, 0, sizeof sink);"
    for word, _, tensor in outputs:
        if tensor is not None:
            yield f"    sink.{word} = get_{word};"
    yield f"    {name}_begin(&sink);"
    yield f"    for (image = 0; image < {name.upper()}_IMAGES; image++) {{ state = 1;"
    for word, _ in inputs:
        yield f"        next_{word} = 0;"
    yield "        for (int turn = 0; state != 2; turn++) { int took = 0;"
    for word, tensor in inputs:
        outer, rows, inner = split(tensor.shape, tensor.row_axis)
        more = f"_{word}" if len(inputs) > 1 else ""
        yield f"            if (state != 2 && next_{word} < {rows}) {{"
        yield f"                for (int o = 0; o < {outer}; o++) for (int i = 0; i < {inner}; i++)"
        yield f"                    row_{word}[o * {inner} + i] ="
        yield f"                        in_{word}[((image * {outer} + o) * {rows} + next_{word}) * {inner} + i];"
        yield f"                const int got = {name}_push_row{more}(row_{word});"
        yield f"                if (got) {{ next_{word}++; took = 1; state = got; }} }}"
    yield "            if (!took && state != 2) return 3; } "
    for word, tensor in inputs:
        yield f"        if (next_{word} != {tensor.rows}) return 4;"
    yield "    }"
    yield '    file = fopen(words[2], "wb");'
    for word, size, _ in outputs:
        yield f"    fwrite(out_{word}, sizeof *out_{word}, {size}, file);"
    yield "    return fclose(file); }"


def split(shape: Sequence[int], axis: int | None) -> tuple[int, int, int]:
    """Elements before the row axis, rows, elements behind it."""
    if axis is None:
        return 1, 1, int(np.prod(shape))
    return int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))


def differences(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> list[float]:
    """The largest difference of each output, relative to its largest value."""
    assert found.keys() == wanted.keys()
    return [
        float(np.abs(found[name] - wanted[name]).max(initial=0))
        / max(1e-30, float(np.abs(wanted[name]).max(initial=0)))
        if wanted[name].dtype.kind == "f"
        else float((found[name] != wanted[name]).any())
        for name in wanted
    ]
