"""Are the arguments of a public function what it takes? Its annotations say that, and an error names the argument."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral, Real
from typing import Any

from csdfgen.errors import InputError


class ArgumentError(InputError, TypeError):
    """A public function lacks an argument, or is given one of another type."""


_ALIASES = {
    "AskedValues": "Mapping", "Inputs": "Iterable", "Model": "str|PathLike|ModelProto|Network|list", "OnRows": "Callable",
    "Progress": "Callable", "Sequence": "Iterable", "TorchModel": "Module|ExportedProgram|list",
}  # fmt: skip
_TYPES: Mapping[str, Any] = {
    "Callable": Callable, "Iterable": Iterable, "Mapping": Mapping, "None": type(None), "PathLike": os.PathLike,
    "bytes": bytes, "float": Real, "int": Integral, "str": str,
}  # fmt: skip
_WORDS = {
    "Backend": "a backend", "Callable": "a function", "Cost": "a cost", "CsdfGraph": "a graph", "Cut": "an image in strips",
    "ExportedProgram": "an exported program", "Iterable": "an iterable", "Mapping": "a mapping",
    "ModelProto": "an onnx.ModelProto", "Module": "a module of torch", "Network": "a network", "PathLike": "a path",
    "list": "a list of them", "Plan": "a plan", "PlanOptions": "options of a plan", "PlanTable": "a table of plans",
    "StreamPlan": "a plan of images of any height", "ndarray": "an array",
}  # fmt: skip
"""What types are called. Classes that are not among `_TYPES` are known by name, and not imported for this."""

_READ = ("batch", "rows")
"""Arguments of any type, which are read, and refused, where they are used."""


def _kinds(annotation: str) -> tuple[str, ...]:
    """The types of an annotation; () where one of them is not checked here."""
    while annotation != (annotation := re.sub(r"\[[^\[\]]*\]", "", annotation)):
        pass
    names = [part.strip().rpartition(".")[2] for part in annotation.split("|")]
    found = [one for name in names for one in _ALIASES.get(name, name).split("|")]
    return tuple(dict.fromkeys(found)) if {*found} <= {*_TYPES, *_WORDS} else ()


def _is(value: object, kind: str) -> bool:
    if kind == "Backend":  # a protocol: anybody's class may be one
        return hasattr(value, "lower") and hasattr(value, "bind")
    if kind not in _TYPES:
        return any(base.__name__ == kind for base in type(value).__mro__)
    if kind == "Iterable" and isinstance(value, str | bytes):
        return False
    return isinstance(value, _TYPES[kind])


def check_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises ArgumentError for arguments that are missing, superfluous or of another type."""
    signature = inspect.signature(function)
    kinds = {
        one.name: _kinds(str(one.annotation))
        for one in signature.parameters.values()
        if one.name not in _READ
    }

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            given = signature.bind(*arguments, **options).arguments
        except TypeError as error:
            text = f"{error}; help(csdfgen.{function.__name__}) lists its arguments"
            raise ArgumentError(text, where=f"csdfgen.{function.__name__}") from None
        for name, value in given.items():
            if kinds.get(name) and not any(_is(value, kind) for kind in kinds[name]):
                known = [_WORDS.get(one, one) for one in kinds[name]]
                listed = " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))
                way = "; csdfgen.load reads one" if {*kinds[name]} <= {"Network", "list"} else ""
                text = f"{function.__name__} takes {listed}, not {type(value).__name__}{way}"
                raise ArgumentError(text, where=name)
        return function(*arguments, **options)

    checked.__module__ = "csdfgen"  # where pickle finds it
    return checked
