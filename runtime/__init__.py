"""runtime executes plans in one arena, and compares the outputs with onnxruntime's.

y = runtime.run(plan, x)            # one frame
frame = runtime.compile(plan)       # many frames: compiled once
y = frame(x)
frame(x, on_rows=f)                 # no output is stored: f receives its rows as they are computed
frame.save("net.csdfgen")           # a file that runs without the model: frame = runtime.open("net.csdfgen")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import numpy as np

    from csdfgen.errors import InputError
    from csdfgen.files import Fields
    from csdfgen.planning.plan import Plan
    from csdfgen.planning.plan_table import PlanTable
    from csdfgen.planning.streams import StreamPlan
    from csdfgen.program.steps import CompiledFrame
    from runtime.bound import Watcher
    from runtime.choosing import TableProgram
    from runtime.session import Executable, OnRows
    from runtime.stream import StreamProgram

__all__ = ["compile", "compile_table", "open", "run"]


@overload
def compile(
    plan: StreamPlan, *, threads: int = 1, backend: str = "", cl_device: str = "", weights: str = ""
) -> StreamProgram: ...


@overload
def compile(
    plan: Plan,
    *,
    taps: Iterable[str] = (),
    threads: int = 1,
    backend: str = "",
    watchers: Mapping[str, Watcher] | None = None,
    cl_device: str = "",
    weights: str = "",
) -> Executable: ...


def compile(  # shadows the builtin, which is not used here
    plan: Plan | StreamPlan,
    *,
    taps: Iterable[str] = (),
    threads: int = 1,
    backend: str = "",
    watchers: Mapping[str, Watcher] | None = None,
    cl_device: str = "",
    weights: str = "",
) -> Executable | StreamProgram:
    """A program for many frames of one plan: `frame = compile(plan); y = frame(x)`. Of a plan of a stream (`csdfgen.plan_stream`)
    a program for rows as they come: `for rows in compile(plan).stream(source)`; it takes no taps and no watchers.

    taps: names of tensors whose values are kept (`Executable.taps`).
    threads: number of threads that share the work of large steps. In numpy these are the threads of the
        BLAS library of the whole process; its number is restored when the last such program is gone.
    backend: "native" (C, built once on this machine), "numpy", "opencl", "auto" (native if it can be built), or
        "", the backend for which the plan was made.
    watchers: tensor name -> a function that receives its rows as they are computed (`bound.Watcher`).
    cl_device: the device of the backend "opencl", a number or a part of its name; "": the plan's, or the one that
        `csdfgen devices --opencl` lists first as a GPU.
    weights: "copied" into memory of this process, "mapped" from a file of the user's cache (as in `csdfgen.plan`), or
        "", the plan's.
    Raises ScheduleError, CapacityExceededError or PlanError for a plan that is not valid, InputError
    for an unknown backend or device, ToolError if a backend cannot be had on this machine.
    """
    from csdfgen.backends.registry import choose_backend, replace_backend
    from csdfgen.errors import PlanError, option
    from csdfgen.planning.plan import Plan
    from runtime.session import Executable

    if not isinstance(plan, Plan):
        from csdfgen.planning.streams import StreamPlan

        if not isinstance(plan, StreamPlan):
            _check(plan, Plan, "csdfgen.plan")
    made_for = plan.options.backend
    if weights and weights != plan.options.weights:
        options = replace(plan.options, weights=weights)
        if isinstance(plan, Plan):
            plan = replace(plan, options=options)
        else:
            plan = replace(plan, phased=replace(plan.phased, options=options))
    kernels = choose_backend(replace_backend(plan.options, backend, cl_device))
    try:
        if not isinstance(plan, Plan):
            from runtime.stream import StreamProgram

            _refuse(taps=taps, watchers=watchers)
            return StreamProgram(plan, threads, kernels)
        return Executable(plan, taps, threads, kernels, watchers)
    except PlanError as error:
        if kernels.name == made_for:
            raise
        raise PlanError(
            f"{error}; it was made for {option('backend', made_for)}, run it there, or make a plan for this backend"
        ) from None


def compile_table(
    table: PlanTable, *, threads: int = 1, backend: str = "", cl_device: str = ""
) -> TableProgram:
    """A program for a table of plans: `serve = compile_table(table); y = serve(images, memory=free)`.

    threads, backend, cl_device: as in `compile`; all plans of the table use one backend. Raises as `compile`.
    """
    from csdfgen.backends.registry import choose_backend, replace_backend
    from csdfgen.planning.plan_table import PlanTable
    from runtime.choosing import TableProgram

    _check(table, PlanTable, "csdfgen.plan_table")
    options = table.entries[0].plan.options
    kernels = choose_backend(replace_backend(options, backend, cl_device))
    return TableProgram(table, threads, kernels)


def _refuse(**given: object) -> None:
    """Raises InputError for what streams do not take."""
    from csdfgen.errors import InputError, option

    for name, value in given.items():
        if value:
            raise InputError(
                f"{option(name)}: a stream keeps no tensors; compile a plan of an image"
            )


def _check(given: object, kind: type, maker: str) -> None:
    """Raises InputError if `given` is not a plan or table, with the function that makes one."""
    from csdfgen.errors import InputError

    if not isinstance(given, kind):
        raise InputError(
            f"a {type(given).__name__} cannot be compiled; {maker} makes a {kind.__name__} of a network"
        )


def open(  # shadows the builtin, likewise
    path: str | PathLike[str], *, model: str | PathLike[str] | None = None
) -> CompiledFrame:
    """A compiled program (`csdfgen compile`, `Executable.save`), ready in milliseconds: `y = open("net.csdfgen")(x)`.

    Neither the model nor a planner is loaded. The file is mapped, and processes that run it share its constants; it must
    not be changed meanwhile. A program is code: whoever runs one trusts who compiled it.
    model: what it was compiled of, a file or a name of the zoo: a program that cannot run here is compiled again of it, with
        the options, shapes and constants that the file tells, and replaces the file.
    Raises InputError for a file that is no such program, is damaged, or was compiled for another processor or version, and
    for a model of another network; ToolError if the kernels are not in the cache and cannot be built; with a model as
    `csdfgen.load` and `compile`.
    """
    from importlib import import_module
    from pathlib import Path

    from csdfgen.backends import OPENED
    from csdfgen.errors import InputError

    opened = import_module(OPENED)
    try:
        found: CompiledFrame = opened.CompiledProgram(path)
    except InputError as error:
        if model is None:
            raise _with_way_out(error, opened.read_description, Path(path)) from None
        _compile_again(opened.read_description(Path(path)), Path(path), model)
        found = opened.CompiledProgram(path)
    return found


def _with_way_out(error: InputError, described: Callable[[Path], Fields], path: Path) -> InputError:
    """Why a program cannot run here, and what helps if the file tells what it was compiled of."""
    from csdfgen.errors import InputError, option

    try:
        described(path)
    except InputError:
        return error
    way = f"{error.message}; with {option('model')} it is compiled again"
    return InputError(way, where=error.where)


def _compile_again(told: Fields, path: Path, model: str | PathLike[str]) -> None:
    """Write the program of a model as it was told of another. Raises as `open`."""
    from csdfgen.backends.registry import choose_backend
    from csdfgen.dataflow.origin import read_shapes, read_values
    from csdfgen.model.options import PlanOptions
    from csdfgen.planning.planner import plan_fixed_heights
    from csdfgen.reading.loader import load

    network = load(model, shapes=read_shapes(told.child("shapes")), fix=read_values(told))
    if network.name != told.text("network"):
        raise told.fault(f"is of network '{told.text('network')}', the model has '{network.name}'")
    options = PlanOptions.from_fields(told.child("options"))
    compile(
        plan_fixed_heights(network, options, choose_backend(options)),
        threads=told.integer("threads", low=1, default=1),
    ).save(path)


def run(
    plan: Plan,
    x: np.ndarray | Mapping[str, np.ndarray],
    *,
    out: Mapping[str, np.ndarray] | None = None,
    on_rows: OnRows | None = None,
) -> dict[str, np.ndarray]:
    """Execute one frame, and return its outputs by name. For many frames see `compile`.

    x: an array, or arrays by input name, in the shapes of the model. out: arrays into which outputs
        are written. on_rows: a function that receives rows of outputs as they are computed
        (`session.OnRows`); outputs are then not stored.
    Raises InputError for shapes or types that do not fit, and as `compile`.
    """
    return compile(plan)(x, out=out, on_rows=on_rows)
