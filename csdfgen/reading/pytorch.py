"""How does a PyTorch model become ONNX? By torch.onnx, which is imported when one is asked for.

Source: https://docs.pytorch.org/docs/stable/onnx_export.html (the exporter over torch.export).
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import onnx

from csdfgen.errors import CsdfgenError, InputError, ModelError, first_line
from csdfgen.reading.onnx_file import check_file

_SHOWN = 160
"""Characters of a message of torch."""

_Result = TypeVar("_Result")


def is_torch(source: object) -> bool:
    """Whether a model in memory is a module or an exported program of torch, which is then imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, (torch.nn.Module, torch.export.ExportedProgram))


def export_module(model: Any, example: Any) -> onnx.ModelProto:
    """A module, in evaluation mode, or an exported program as ONNX.

    example: a tensor or a tuple of them, whose shapes the network gets; of an exported program None. Raises
    InputError for a missing or superfluous example, ModelError where torch refuses the module.
    """
    torch = _torch()
    name = type(model).__name__
    if isinstance(model, torch.export.ExportedProgram):
        if example is not None:
            raise InputError("an exported program has its example inputs; leave example out")
        return _as_onnx(torch, model, "model")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"example= is for a module of torch, not for {name}; leave it out")
    if example is None:
        raise InputError(
            f"{name} is a module of torch, which needs an example input: csdfgen.load(module, torch.zeros(1, 3, 224, 224))"
        )
    inputs = tuple(example) if isinstance(example, tuple | list) else (example,)
    training = [one for one in model.modules() if one.training]
    model.eval()
    try:
        with torch.no_grad():
            program = _asked("torch.export", lambda: torch.export.export(model, inputs))
    finally:
        for one in training:
            one.training = True
    return _as_onnx(torch, program, name)


def export_file(path: Path) -> onnx.ModelProto:
    """The exported program of a .pt2 file (torch.export.save) as ONNX. Raises InputError, ModelError."""
    check_file(path)
    torch = _torch()
    program = _asked("torch.export", lambda: torch.export.load(path))
    return _as_onnx(torch, program, path.stem)


def _torch() -> Any:
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise InputError(
            f"a model of PyTorch needs torch and onnxscript ({first_line(error)}); install them with "
            "pip install 'csdfgen[torch]', or export it to ONNX elsewhere (torch.onnx.export)"
        ) from None
    return torch


def _as_onnx(torch: Any, program: Any, name: str) -> onnx.ModelProto:
    made = _asked(
        "torch.onnx", lambda: torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    )
    made.graph.name = name
    return made


def _asked(what: str, do: Callable[[], _Result]) -> _Result:
    """Whatever torch raises is one line of ours: its exporters raise dozens of types."""
    try:
        with _silent():
            return do()
    except CsdfgenError:
        raise
    except Exception as error:
        why = first_line(error)
        raise ModelError(
            f"{what} refuses it: {why if len(why) <= _SHOWN else why[:_SHOWN] + '...'}; export it to ONNX by other means"
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """Keep the exporter from logging and warning about what it skips."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
