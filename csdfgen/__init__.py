"""csdfgen: convolutional networks in far less memory, as cyclo-static dataflow over slabs of rows.

    net = csdfgen.load("model.onnx")
    plan = csdfgen.plan(net, rows="auto")
    y = runtime.run(plan, x)

Importing this package is cheap: onnx is loaded with the first model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from csdfgen.planning.planner import plan
    from csdfgen.reading.loader import load

__all__ = ["__version__", "load", "plan"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "load":
        from csdfgen.reading.loader import load

        return load
    if name == "plan":
        from csdfgen.planning.planner import plan

        return plan
    raise AttributeError(f"module 'csdfgen' has no attribute {name!r}")
