"""Which options do several commands share, and how are they read?"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated, Any

import typer

from csdfgen.errors import InputError

__all__ = [
    "BatchOption",
    "Fuse",
    "FuseOption",
    "Image",
    "ImageOption",
    "ModelArgument",
    "ModelGroup",
    "ModelOptions",
    "Rates",
    "RowsOption",
    "ShapeOption",
    "Tokens",
    "is_graph_file",
    "parse_shape",
]

GRAPH_SUFFIXES = (".json", ".xml")
"""What a CSDF graph's file name ends with; any other file is taken for an ONNX model."""

_MAX_DIGITS = 10


class Fuse(str, enum.Enum):
    """Levels of `csdfgen.rewriting.fuse`."""

    none = "none"
    fold = "fold"
    full = "full"


class Image(str, enum.Enum):
    """Where the network's input lies."""

    streamed = "streamed"
    resident = "resident"


class Rates(str, enum.Enum):
    """Which rates a graph has."""

    exact = "exact"
    paper = "paper"


class Tokens(str, enum.Enum):
    """What a token is."""

    elements = "elements"
    rows = "rows"


ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="ONNX model, zoo:NAME\\[@HEIGHTxWIDTH], or a CSDF graph (.json, .xml).",
        show_default=False,
    ),
]
RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="ROWS",
        help="How many rows of its output a layer computes at a time. A number; auto: rows of about 64 pixels together; "
        "whole: all rows at once, as other runtimes do; paper: one row, except that a layer which needs its whole input "
        "(global pooling, fully connected) takes it at once, as the paper has it. Single layers and inputs by name, behind "
        "commas: 4,conv1=1,pool5=whole; image=24+8 is 24 rows first, then 8 at a time. "
        "\\[default: auto]",
        show_default=False,
    ),
]
FuseOption = Annotated[
    Fuse | None,
    typer.Option(
        "--fuse",
        help="none: every ONNX node an actor; fold: constants folded into weights; full: activations in the slab, Add in place, "
        "Concat and Split as views too. \\[default: full]",
        show_default=False,
    ),
]
ImageOption = Annotated[
    Image | None,
    typer.Option(
        "--image",
        help="streamed: input rows arrive as they are needed; resident: the whole input lies in the arena. \\[default: streamed]",
        show_default=False,
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=1x3x224x224",
        help="Size of an input, where free or to be overridden; repeatable.",
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Images of a batch; they run one after another.",
    ),
]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to load and plan a model; None where the user said nothing. wishes: goals and budgets by
    the name in `PlanOptions`.
    """

    rows: str | None = None
    fuse: str | None = None
    image: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: int | None = None
    wishes: Mapping[str, Any] = field(default_factory=dict)

    def given(self) -> list[str]:
        """The options that the user gave, as typed."""
        names = ("rows", "fuse", "image", "batch")
        found = [f"--{name}" for name in names if getattr(self, name) is not None]
        shape = ["--shape"] if self.shapes else []
        return [*found, *shape, *map(self.flag, self.wishes)]

    def flag(self, wish: str) -> str:
        """The option of a wish: images of a request are its frames."""
        return "--requests" if wish == "frames" and "batching" in self.wishes else f"--{wish}"


@dataclass(frozen=True, slots=True)
class ModelGroup:
    """The same as typed."""

    rows: RowsOption = None
    fuse: FuseOption = None
    image: ImageOption = None
    shape: ShapeOption = None
    batch: BatchOption = None

    def read(self, wishes: Mapping[str, Any] | None = None) -> ModelOptions:
        """The options as one value, with what `GoalGroup.read` gives. Raises typer.BadParameter for a shape that is none."""
        found: dict[str, tuple[int, ...]] = {}
        for text in self.shape or ():
            try:
                name, dims = parse_shape(text)
            except InputError as error:
                raise typer.BadParameter(error.message, param_hint="--shape") from None
            if name in found:
                raise typer.BadParameter(f"input '{name}' is given twice", param_hint="--shape")
            found[name] = dims
        fuse = self.fuse.value if self.fuse else None
        image = self.image.value if self.image else None
        return ModelOptions(self.rows, fuse, image, found, self.batch, wishes or {})


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """("x", (1, 3, 8, 8)) from "x=1x3x8x8"; a name may hold anything, the sizes stand behind its
    last "=". Raises InputError.
    """
    name, equals, sizes = text.rpartition("=")
    parts = sizes.lower().replace(",", "x").split("x")
    if not name or not equals or not all(_is_size(part) for part in parts):
        raise InputError(f"'{text}' is not NAME=SIZExSIZEx..., such as input=1x3x224x224")
    return name, tuple(int(part) for part in parts)


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) > 0


def is_graph_file(model: str) -> bool:
    """Whether a command's MODEL is a CSDF graph rather than a network."""
    return not model.startswith("zoo:") and PurePath(model).suffix.lower() in GRAPH_SUFFIXES
