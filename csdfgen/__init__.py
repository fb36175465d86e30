"""csdfgen runs convolutional networks in a fraction of their activation memory, as cyclo-static
dataflow over slabs of rows.

    network = csdfgen.load("model.onnx")
    plan = csdfgen.plan(network, memory="512KiB")
    y = csdfgen.run(plan, x)                 # one frame
    frame = csdfgen.compile(plan)            # many frames: y = frame(x)

    graph = csdfgen.convert(network)         # the CSDF graph, for save_graph, schedule, analyze
    csdfgen.analyze(graph).throughput        # exact, and what limits it
    csdfgen.report(network).ok               # executed, measured, compared with onnxruntime

Importing this package is cheap: onnx is imported with the first model.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from csdfgen.model.describe import CHARTS

if TYPE_CHECKING:
    from csdfgen.api import (
        analyze,
        convert,
        plan_stream,
        read_graph,
        read_plan,
        read_plan_table,
        read_stream,
        report,
        save_graph,
        save_plan,
        schedule,
        serve,
    )
    from csdfgen.goals.choice import pareto, plan, plan_table
    from csdfgen.precision.calibrate import calibrate
    from csdfgen.precision.quantize import quantize, sensitivity
    from csdfgen.reading.loader import load
    from csdfgen.reading.tflite.model import read_states
    from runtime import compile, compile_table, open, run

__all__ = [
    "__version__",
    "analyze",
    "calibrate",
    "compile",
    "compile_table",
    "convert",
    "load",
    "open",
    "pareto",
    "plan",
    "plan_stream",
    "plan_table",
    "quantize",
    "read_graph",
    "read_plan",
    "read_plan_table",
    "read_states",
    "read_stream",
    "register_function",
    "report",
    "run",
    "save_graph",
    "save_plan",
    "schedule",
    "sensitivity",
    "serve",
]

__version__ = "0.4.0"

_HOMES = {
    "calibrate": "csdfgen.precision.calibrate",
    "compile": "runtime",
    "compile_table": "runtime",
    "load": "csdfgen.reading.loader",
    "open": "runtime",
    "pareto": "csdfgen.goals.choice",
    "plan": "csdfgen.goals.choice",
    "plan_table": "csdfgen.goals.choice",
    "quantize": "csdfgen.precision.quantize",
    "read_states": "csdfgen.reading.tflite.model",
    "register_function": "csdfgen.ops.functions",
    "run": "runtime",
    "sensitivity": "csdfgen.precision.quantize",
}
"""Function -> the module that defines it, if that is not `csdfgen.api`."""

CHARTS["Plan"] = "csdfgen.charts.plans", "notebook_chart"


class _Package(ModuleType):
    """This package, which imports a function when it is first used.

    A class rather than functions `__getattr__` and `__dir__`, which `help` would list.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'csdfgen' has no attribute {name!r}")
        from csdfgen.arguments import check_arguments

        found = check_arguments(getattr(import_module(_HOMES.get(name, "csdfgen.api")), name))
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (
            self.__name__,
        )  # as modules are: Ray and Dask send functions that name it

    def __dir__(self) -> list[str]:
        there = super().__dir__()
        rooms = (name for name in there if f"{__name__}.{name}" in sys.modules)
        return sorted({*__all__, *rooms, *(name for name in there if name.startswith("__"))})


sys.modules[__name__].__class__ = _Package
