"""Which options do several commands share, and how are they read? Those of planning are made of their
declarations in `model.options`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from csdfgen.cli.command import Argument
from csdfgen.errors import InputError
from csdfgen.files import check_writable
from csdfgen.model.kinds import MOST_IMAGES
from csdfgen.model.options import (
    DEFAULTS,
    GOALS,
    MEMORIES,
    OPTIONS,
    REQUESTS,
    STREAM_OPTIONS,
    Option,
    PlanOptions,
    declare,
)
from csdfgen.model.units import parse_size

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.model.formats import Format
    from runtime.images import ImageOptions


GRAPH_SUFFIXES = (".json", ".xml")
"""What a CSDF graph's file name ends with; any other file is taken for an ONNX model."""

JSON = ("--json",)
OUTPUT = ("--output", "-o")
"""Flags."""

JsonOption = Annotated[bool, Option("Print one JSON object instead of text.", names=JSON)]

FILES = "Inputs and outputs"
"""A heading in the help."""

CAPACITIES = "CHANNEL=N,...|FILE"
"""What --capacities takes."""

_MAX_DIGITS = 10

Tokens = Literal["elements", "rows"]

SEVERAL = "several models share one arena"
_MODEL = "Model (.onnx, .pt2, .prototxt, .tflite)"

Stateful = Annotated[
    list[str] | None,
    Option(
        "The model is one step of --stream: its output OUT is input IN of the next step, which begins with zeros; repeatable.",
        "IN=OUT", panel=FILES,
    ),
]  # fmt: skip
NetworkArgument = Annotated[str, Argument("MODEL", f"{_MODEL}, or zoo:NAME[@HEIGHTxWIDTH].")]

ModelArgument = Annotated[
    str,
    Argument(
        "MODEL...",
        f"{_MODEL}, zoo:NAME[@HEIGHTxWIDTH], or a CSDF graph (.json, .xml); {SEVERAL}.",
        models=True,
    ),
]

Spread = Annotated[
    bool,
    Option(
        "With --stream: spread the work evenly over rows, so that a source which does not wait, such as a line camera, needs a "
        "short queue; costs memory and latency, which are stated.",
        panel=MEMORIES,
    ),
]

Pareto = Annotated[
    bool,
    Option(
        "The Pareto front of memory and latency, from the smallest plan to the fastest.",
        panel=GOALS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Networks:
    """How several networks share a memory; of these, `join_models` makes the name of one model."""

    rates: str | None = declare(
        "Of several models: how often each runs in a frame, at most; one after the other, in the same memory.",
        None, "N,N...", shown="1,1...",
    )  # fmt: skip
    after: list[str] | None = declare(
        "Of several models: B starts when A has ended; repeatable.", None, "B=A"
    )
    connect: list[str] | None = declare(
        "Of several models: an input of one is an output (or input) of another; with :crop, regions of an image in its size; "
        "with another name, what a registered function makes of them; repeatable.",
        None, "A.OUTPUT[,A.IMAGE]=B.INPUT[:crop]",
    )  # fmt: skip


# Planning ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers of images and budgets in bytes (none: any memory) of a table of plans."""

    requests: tuple[int, ...]
    budgets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """How to load and plan a model. given: the options of planning that the user gave, by name, read but for
    the rows; fixed: inputs that become constants, with their values;
    table: of which one of them, for --requests with several numbers or with --budgets;
    example: input name -> an array of the shape of what is fed, for free sizes.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    batch: int | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    table: Table | None = None
    example: Mapping[str, np.ndarray] = field(default_factory=dict)

    def typed(self) -> list[list[str]]:
        """Every option that the user gave, as it is typed: the flag, and its value."""
        found = [
            [self.flag(name), *OPTIONS[name].kind.typed(one)] for name, one in self.given.items()
        ]
        found += [["--batch", str(self.batch)]] if self.batch is not None else []
        found += [
            ["--shape", f"{name}={'x'.join(map(str, shape))}".removeprefix("=")]
            for name, shape in self.shapes.items()
        ]
        return found + [["--fix", f"{name}={value}"] for name, value in self.fixed.items()]

    def flag(self, name: str) -> str:
        """The flag of an option: images of a request are its frames."""
        if name == "frames" and "batching" in self.given:
            return "--requests"
        return f"--{name.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class Source:
    """A model or a plan file, as typed, with its options; model: the model that a plan file belongs to."""

    name: str
    asked: Asked = field(default_factory=Asked)
    model: str | None = None

    @property
    def is_plan(self) -> bool:
        return is_graph_file(self.name)


def parse_source(text: str) -> Source:
    """A model with options after plus signs, or a plan file. Raises InputError.

    >>> one = parse_source("zoo:lenet5+rows=1+policy=demand")
    >>> one.name, one.asked.given
    ('zoo:lenet5', {'rows': '1', 'policy': 'demand'})
    """
    if Path(text).exists():
        return Source(text)
    name, *settings = re.split(r"\+(?=(?:\w+)=)", text)
    values: dict[str, Any] = {}
    for key, _, value in (setting.partition("=") for setting in settings):
        if key not in _SETTINGS:
            raise InputError(f"'+{key}=' is no option; {', '.join(_SETTINGS)} are", where=text)
        if key in values and key not in _NAMED:
            raise InputError(f"'+{key}=' is given twice", where=text)
        words = OPTIONS[key].kind.words if key in OPTIONS else ()
        if words and value not in (*words, DEFAULTS.policy):
            raise InputError(f"+{key}={value} is not one of {', '.join(words)}", where=name)
        if key in _NAMED:
            _NAMED[key](value)
            values.setdefault(key, []).append(value)
        elif key == "batch":
            if not _is_size(value) or int(value) > MOST_IMAGES:
                raise InputError(
                    f"'+batch={value}' is no number from 1 to {MOST_IMAGES}", where=text
                )
            values[key] = int(value)
        else:
            values[key] = value if key == "requests" else OPTIONS[key].kind.of_text(value)
    return Source(name, collect_options(values))


class Typed:
    """Base of groups of these options, as typed."""

    def read(self) -> Asked:
        """The options as one value. Raises as `collect_options`."""
        given = {name: value for name, value in vars(self).items() if name != "of"}
        return collect_options(given)


def collect_options(typed: Mapping[str, Any]) -> Asked:
    """What is typed of each option, None or False where nothing is, as one value. Raises InputError for a value
    that is none, and for options that contradict each other; typer.BadParameter for a shape or a fixed
    input.
    """
    left = {name: value for name, value in typed.items() if value not in (None, False)}
    shapes, batch = _by_name("shape", left.pop("shape", ())), left.pop("batch", None)
    fixed = _by_name("fix", left.pop("fix", ()))
    table = _of_requests(left)
    given = {
        name: value if name == "rows" else OPTIONS[name].kind.read(value, name)
        for name, value in left.items()
    }
    if given.get("backend") == "auto":
        from csdfgen.backends.registry import resolve_backend

        given["backend"] = resolve_backend("auto")
    PlanOptions(**given)
    return Asked(given, shapes, batch, fixed, table)


def _of_requests(typed: dict[str, Any]) -> Table | None:
    """Put the frames and the batching of a request in its place. Raises InputError for what contradicts itself."""
    requests, budgets = typed.pop("requests", None), typed.pop("budgets", None)
    if requests is not None:
        for name in ("frames", "batches"):
            if name in typed:
                raise InputError(
                    f"--requests {requests} chooses what --{name} {typed[name]} gives; leave one of them out"
                )
        counts = parse_counts(requests, "requests", "images", MOST_IMAGES)
        typed |= {"frames": counts[-1], "batching": typed.get("batching", "joint")}
        if budgets is None and "," not in requests:
            return None
        sizes = budgets.split(",") if budgets else []
        return Table(counts, tuple(parse_size(one.strip(), "budgets") for one in sizes))
    for name, value, wanted in (
        ("budgets", budgets, "is of a table; say for how many images with --requests"),
        ("batching", typed.get("batching"), "needs images to share out; say how many come together with --requests R"),
        ("batches", None if "frames" in typed else typed.get("batches"), "is of several images; say how many with --frames N"),
    ):  # fmt: skip
        if value is not None:
            raise InputError(f"--{name} {value} {wanted}")
    return None


def parse_counts(text: str, name: str, unit: str, most: int = 999_999) -> tuple[int, ...]:
    """(1, 4) from "4,1". name: of the option; unit: of what they are numbers. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(_is_size(part) and int(part) <= most for part in parts):
        raise InputError(
            f"--{name} {text}: whole numbers of {unit} above 0, up to {most:,}, are needed, such as 1,2,4"
        )
    return tuple(sorted({int(part) for part in parts}))


@dataclass(frozen=True)
class _Others:
    """What is typed besides the options of planning."""

    budgets: str = declare(
        "With --requests: a table of plans, one for each number of images and memory, from which a program chooses "
        "at run time.",
        ..., "SIZE,SIZE...", MEMORIES,
    )  # fmt: skip
    shape: list[str] = declare(
        "The shape of an input, if it is dynamic or should be overridden; NAME= may be left out for a single input; "
        "repeatable.",
        ..., "NAME=1x3x224x224",
    )  # fmt: skip
    fix: list[str] = declare(
        "Make an input a constant, such as a sample rate: one value, or all its values; repeatable.",
        ..., "NAME=VALUE[,VALUE...]",
    )  # fmt: skip
    batch: int = declare(
        "The batch size; images run one after another.", ..., "N", low=1, high=MOST_IMAGES
    )
    of: str = declare(
        "For a plan file: its model, if that is neither in the plan's folder nor in the current one.",
        ..., "MODEL", names=("--model",),
    )  # fmt: skip


_TYPED: Mapping[str, tuple[Any, Option]] = {
    **{name: (one.kind.typed_as, one) for name, one in OPTIONS.items() if "flag" in one.users},
    "requests": (str, REQUESTS),
    **{
        one.name: (get_type_hints(_Others)[one.name], one.metadata["option"])
        for one in fields(_Others)
    },
}
"""Option -> the type of what is typed, and its declaration."""

_LOADING = ("shape", "fix", "batch")
_SETTINGS = [name for name in _TYPED if name not in ("of", "budgets")]
"""What may stand after a model, between plus signs."""

_Group = TypeVar("_Group", bound=type[Typed])


def option_group(*names: str) -> Callable[[_Group], _Group]:
    """A group of these options."""

    def made(group: _Group) -> _Group:
        of_group = []
        for name in names:
            kind, declared = _TYPED[name]
            optional = (bool, False) if kind is bool else (kind | None, None)
            of_group.append((name, Annotated[optional[0], declared], optional[1]))
        return make_dataclass(group.__name__, of_group, bases=(group,), frozen=True)  # type: ignore[return-value]

    return made


@option_group("shape", "fix")
class Loaded(Typed):
    """How a model is loaded."""


@option_group("rows", "fuse", "image", *_LOADING)
class Cut(Typed):
    """And cut into phases."""


_PLANNING = sorted(
    (name for name in _TYPED if name not in ("policy", "of")),
    key=lambda name: _TYPED[name][1].panel or "",
)


@option_group(*_PLANNING)
class Planning(Typed):
    """And planned."""


@option_group("of", "policy", *_PLANNING)
class Planned(Typed):
    """A plan that is read, or made."""

    of: str | None
    device: str | None

    def source(self, model: str) -> Source:
        """What the options and the argument say. Raises as `collect_options`."""
        return Source(model, self.read(), self.of)


def _by_name(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    """What an option gives inputs by their names. Raises typer.BadParameter."""
    found: dict[str, Any] = {}
    for text in texts:
        try:
            name, value = _NAMED[flag](text)
        except InputError as error:
            raise typer.BadParameter(error.message, param_hint=f"--{flag}") from None
        if name in found:
            raise typer.BadParameter(f"input '{name}' is given twice", param_hint=f"--{flag}")
        found[name] = value
    return found


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """("x", (1, 3, 8, 8)) from "x=1x3x8x8"; a name may hold anything, the sizes stand after its
    last "=". Without a name it is "", the only input. Raises InputError.
    """
    name, equals, sizes = text.rpartition("=")
    parts = sizes.lower().replace(",", "x").split("x")
    if bool(name) != bool(equals) or not all(_is_size(part) for part in parts):
        raise InputError(f"'{text}' is not NAME=SIZExSIZEx..., such as input=1x3x224x224")
    return name, tuple(int(part) for part in parts)


def _parse_value(text: str) -> tuple[str, str]:
    """("sr", "16000") from "sr=16000". Raises InputError."""
    name, equals, value = text.rpartition("=")
    if not name or not equals or not value:
        raise InputError(f"'{text}' is not NAME=VALUE, such as sr=16000")
    return name, value


_NAMED: Mapping[str, Callable[[str], tuple[str, Any]]] = {"shape": parse_shape, "fix": _parse_value}
"""Options that give an input something by its name, and how they are read."""


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) > 0


# Others -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """How pictures become values."""

    resize: bool = declare("Resize images to the network's input size.", False, panel=FILES)
    mean: str | None = declare(
        "Subtracted from pixels (0 to 255): one value, or one per channel.", None, "V[,V,V]", FILES
    )
    std: str | None = declare(
        "Divisor of pixels, after --mean; --std 255 gives values from 0 to 1.",
        None, "V[,V,V]", FILES,
    )  # fmt: skip
    layout: str | None = declare(
        "The image layout of the network; -bgr is blue first. nchw and nhwc are inferred from the input's shape.",
        None, "nchw|nhwc[-bgr]", FILES,
    )  # fmt: skip

    def read(self, formats: Mapping[str, Format] = MappingProxyType({})) -> ImageOptions:
        """As one value; formats: of the integers that inputs take. Raises InputError."""
        from runtime.images import ImageOptions, parse_channel_values

        return ImageOptions(
            self.resize,
            parse_channel_values("--mean", self.mean),
            parse_channel_values("--std", self.std),
            self.layout,
            formats,
        )


def is_graph_file(model: str) -> bool:
    """Whether a command's MODEL is a CSDF graph rather than a network."""
    return not model.startswith("zoo:") and PurePath(model).suffix.lower() in GRAPH_SUFFIXES


def refuse_graph(model: str, why: str) -> None:
    """Raise InputError for a graph, or the file of a plan, where a model is needed. why: it is, behind "is a graph"."""
    if is_graph_file(model):
        plan = " or a plan" if model.lower().endswith(".json") else ""
        raise InputError(f"is a graph{plan}{why}", where=model)


def check_suffix(path: Path | None, what: str, *suffixes: str) -> None:
    """Refuse now a file that `what` cannot be written to. Raises InputError."""
    if path is None:
        return
    if not path.name.lower().endswith(suffixes):
        known = (" or " if len(suffixes) == 2 else ", ").join(suffixes)
        raise InputError(f"{what} is written as {known}", where=str(path))
    check_writable(path)


def check_picture(flag: str, path: Path | None, suffix: str = ".svg") -> None:
    """Refuse a picture whose name does not end as its content does. Raises InputError."""
    if path is not None and path.suffix.lower() != suffix:
        raise InputError(f"{flag} writes {suffix}; give FILE{suffix}", where=str(path))


def check_front_output(output: Path | None) -> None:
    """What `-o` of `--pareto` may name: a folder, or a picture. Raises InputError."""
    if output is None:
        return
    forms = "a folder of plans (a name without a suffix), or as .svg"
    in_the_way = not output.suffix and output.exists() and not output.is_dir()
    wrong = output.suffix.lower() not in ("", ".svg"), f"{output}: a front is written as {forms}"
    refuse([wrong, (in_the_way, f"{output}: is a file; a folder of plans is to be written")])


def list_stream_refusals(asked: Asked) -> Iterator[tuple[object, str]]:
    """Cases for `refuse`: options that plans of images of any height do not have."""
    names = sorted(asked.given.keys() - STREAM_OPTIONS)
    for flag in (*map(asked.flag, names), *["--batch"] * (asked.batch is not None)):
        yield True, f"--stream plans images of any height, one at a time; leave {flag} out"


def refuse(cases: Iterable[tuple[object, str]]) -> None:
    """Raise InputError for the first case that holds; a case: whether it does, and what is wrong, with where."""
    for holds, wrong in cases:
        if holds:
            raise InputError(wrong)
