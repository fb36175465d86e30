"""The options of planning. Each option is declared once, as a field of `PlanOptions`.

The declaration determines the flag and its help (`csdfgen.cli.options`), the keyword of `csdfgen.plan` and its documentation
(`keywords`), the JSON of plan and graph files with its digest, the axis of a sweep with its column (`csdfgen.sweeps.axes`),
and the setting after a model (`MODEL+rows=1`). `phases.graphs` refuses a file for a network that its options divide into
other phases.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from types import MappingProxyType
from typing import Any, TypeVar

from csdfgen.backends import ALWAYS, FOLDERS
from csdfgen.errors import InputError, option
from csdfgen.files import Fields, parse_json, quote
from csdfgen.model import kinds
from csdfgen.model.kinds import Kind, word

CONVERSION = ("rows", "fuse", "image")
"""Options that determine how a network is divided into phases; the others select a plan for these phases."""

STREAM_OPTIONS = (
    "rows", "fuse", "goal", "effort", "backend", "cl_device", "weights", "exact", "requantize", "fallback",
)  # fmt: skip
"""Options of plans of images of any height."""

EVERYBODY = frozenset({"flag", "keyword", "axis"})
"""The users of an option: the command line, Python programs, and sweeps."""

_Variant = TypeVar("_Variant")

GOALS, MEMORIES = "Goals and budgets", "Memories and frames"
"""Headings in help."""


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option, without its name.

    help: for `--help` and for Python's `help`; it mentions other options as `--NAME`. metavar, panel: placeholder for the
    value, and heading in help. low, high: the range of a number. names: flags, if they are not `--NAME`. shown: the default
    in help, "" if it shows none. kind: its values. users: see `EVERYBODY`. stored: whether files contain it even if it is the
    default. asked: the default of the command line and of `csdfgen.plan`, if it is another one. here: it names something of
    this machine, so that no file contains it.
    """

    help: str
    metavar: str = ""
    panel: str | None = None
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()
    shown: str = ""
    kind: Kind = kinds.TEXT
    users: frozenset[str] = EVERYBODY
    stored: bool = False
    asked: Any = None
    here: bool = False

    @property
    def wanted(self) -> str:
        """The values that are accepted, in words."""
        if self.kind.words:
            return f"one of {', '.join(self.kind.words)}"
        if self.low is not None:
            return f"a number from {self.low:.15g} to {self.high:.15g}"
        return "true or false" if self.kind.type is bool else "a string"

    def accepts(self, value: object) -> bool:
        """Whether a value from a file has the right type and is in the range. Texts with a unit are not checked."""
        if self.kind.words:
            return value in self.kind.words
        if self.low is not None and self.high is not None:
            return type(value) is int and self.low <= value <= self.high
        return self.kind.type is not bool or isinstance(value, bool)


def declare(
    help: str, default: Any, metavar: str = "", panel: str | None = None, **more: Any
) -> Any:
    """A field of a class of options, with its `Option`; a default of `...` makes it required."""
    metavar = metavar or more.get("kind", kinds.TEXT).metavar
    metadata = {"option": Option(help, metavar, panel, **more)}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of planning; the declarations below explain them.

    Sizes, times and energies are stored in bytes, seconds and joules; 0 is no limit. device and tuning are "" if none is
    given. result is "auto" until `goals.results` has decided where outputs are stored. backend determines the workspace that
    is planned; another backend may need more to execute the plan. ways: the variants of kernels that were taken from `tuning`
    (`ways_text`), "" for estimated ones. batching: the algorithm that chose `batches`, "" if they were given.

    Raises InputError for invalid values.

    >>> str(PlanOptions(rows="1").digest)
    'e62adaf4'
    """

    rows: str = declare(
        "Slab height: the number of output rows that a layer computes at a time. A number; auto: rows of about 64 "
        "pixels together; whole: all rows at once, as in other runtimes; paper: one row, but all rows for global "
        "pooling and fully connected layers, as in the paper. Individual layers and inputs follow after commas: "
        "4,conv1=1,pool5=whole; image=24+8 is 24 rows first, then 8 at a time.",
        "auto", kind=kinds.HEIGHTS, shown="auto", stored=True,
    )  # fmt: skip
    fuse: str = declare(
        "none: every ONNX node is an actor; fold: constants are folded into weights; full: activations are fused, "
        "Add runs in place, Concat and Split become views, and composite functions such as x * Sigmoid(x) become one "
        "layer.",
        "full", kind=word("none", "fold", "full"), shown="full", stored=True,
    )  # fmt: skip
    image: str = declare(
        "streamed: input rows arrive as they are needed; resident: the whole input is stored in the arena.",
        "streamed", kind=word("streamed", "resident"), shown="streamed", stored=True,
    )  # fmt: skip
    experts: bool = declare(
        "Skip the experts of a mixture whose gate is zero: a subgraph that is multiplied by a scalar gate becomes a "
        "branch.",
        False, kind=kinds.FLAG,
    )  # fmt: skip
    policy: str = declare(
        "The order of firings. demand: as late as the consumer allows; eager: as deep as possible; layers: layer by "
        "layer; bounded: as far ahead as the memory of demand allows; loop: one period of a tall image, repeated, as its "
        "offsets are.",
        "best",
        kind=word("demand", "eager", "layers", "bounded", "loop", hidden=("best", "overlap", "batches")),
        shown="best, the smallest that is found", stored=True,
    )  # fmt: skip
    goal: str = declare(
        "The objective that chooses slab heights not given by --rows. balanced: least bytes * seconds^2, parameters "
        "included, never above layer-by-layer execution; memory: least memory; speed: least time; throughput: most "
        "images per second on several processors (--threads), each with its own layers, for --frames images.",
        "balanced", kind=word("balanced", "memory", "speed", "throughput"), panel=GOALS, shown="balanced",
    )  # fmt: skip
    memory: int = declare(
        "The fastest plan within this memory: 512KiB (524,288 bytes), 512KB (512,000), 1.5MiB or a number of bytes.",
        0, kind=kinds.SIZE, panel=GOALS,
    )  # fmt: skip
    count: str = declare(
        "The bytes that --memory limits and that the goals count. activations: arena and outputs; total: constants "
        "and the program too. By default only the goal balanced counts parameters, unless the device keeps constants "
        "in flash.",
        "auto", kind=word("activations", "total", hidden=("auto", "flash")), panel=GOALS,
    )  # fmt: skip
    constants: int = declare(
        "A limit for read-only data, constants and the program, as in flash: 1MiB.",
        0, kind=kinds.SIZE, panel=GOALS,
    )  # fmt: skip
    latency: float = declare(
        "The smallest plan within this predicted time on --device: 20ms, 0.5s, 300us.",
        0.0, kind=kinds.TIME, panel=GOALS,
    )  # fmt: skip
    energy: float = declare(
        "With --requests: the energy limit for all images on --device (power times time, plus operations and "
        "bytes): 2J, 500mJ.",
        0.0, kind=kinds.ENERGY, panel=GOALS,
    )  # fmt: skip
    threads: int = declare(
        "With the goal throughput: the number of processors.",
        0, kind=kinds.IMAGES, panel=GOALS, users=frozenset({"keyword"}), shown="those of the device",
    )  # fmt: skip
    device: str = declare(
        "The device for which times are predicted (see csdfgen devices); with the goal throughput, one per "
        "processor, separated by commas.",
        "", "NAME|FILE.toml", kind=kinds.TEXT, panel=GOALS,
        shown="one server core, in round numbers",
    )  # fmt: skip
    probability: str = declare(
        "The probability that the condition of an If is true, for predicted times: early_exit=0.7,expert_3=0.25. By "
        "default the slower branch counts.",
        "", kind=kinds.PROBABILITIES, panel=GOALS,
    )  # fmt: skip
    effort: str = declare(
        "The search effort, or its duration; Ctrl-C returns the best plan so far.",
        "low", kind=kinds.EFFORT, panel=GOALS, shown="low",
    )  # fmt: skip
    recompute: float = declare(
        "Allow rows to be recomputed instead of stored, up to F times the multiply-accumulates.",
        1.0, kind=kinds.FACTOR, panel=GOALS, shown="1",
    )  # fmt: skip
    pack: str = declare(
        "Offset assignment: fast, or exact, which proves the smallest arena or reports a bound.",
        "fast", kind=word("fast", "exact"), panel=GOALS, shown="fast",
    )  # fmt: skip
    result: str = declare(
        "stored: outputs are arrays outside the arena; arena: zero-copy views of the arena; "
        "streamed: rows are passed on as they are computed.",
        "stored", kind=word("stored", "arena", "streamed", hidden=("auto",)), panel=GOALS,
        shown="arena if that saves much memory, else stored", asked="auto",
    )  # fmt: skip
    tiles: str = declare(
        "Groups of layers that are computed in column tiles, as found by --recompute.",
        "", kind=kinds.TEXT, users=frozenset({"keyword"}),
    )  # fmt: skip
    backend: str = declare(
        "The backend that executes the plan and whose scratch is planned. native: C kernels, compiled once on this "
        "machine; numpy; opencl, cuda: a GPU or accelerator; auto: native if there is a C compiler.",
        ALWAYS, kind=word("auto", *FOLDERS), panel=GOALS, shown="auto, or a plan's own",
        asked="auto",
    )  # fmt: skip
    cl_device: str = declare(
        "The OpenCL device, by number or part of its name; see csdfgen devices --opencl.",
        "", "N|NAME", kind=kinds.TEXT, panel=GOALS, users=frozenset({"flag", "keyword"}),
        shown="the first GPU, else the first device", here=True,
    )  # fmt: skip
    weights: str = declare(
        "copied: weights and packed weights are private memory; mapped: they are memory-mapped from the model file "
        "and a cache file, so that processes share pages, which are loaded on demand; auto: mapped if the cache is "
        "writable and they take 1 MiB or more.",
        "auto", kind=word("auto", "copied", "mapped"), panel=GOALS, users=frozenset({"flag", "keyword"}),
        shown="auto", here=True,
    )  # fmt: skip
    exact: bool = declare(
        "Do not use Winograd convolution, whose rounding differs by about 1e-5 (relative).",
        False, kind=kinds.FLAG, panel=GOALS,
    )  # fmt: skip
    requantize: str = declare(
        "How int8 results are rescaled. float: by a float32 factor, as in onnxruntime; integer: by an integer "
        "multiplier of up to 31 bits and a shift, for processors without floating point, rounded to nearest with "
        "ties upwards. Rare bytes then differ by one step. Networks from .tflite files: as TensorFlow Lite Micro rounds.",
        "float", kind=word("float", "integer"), panel=GOALS, shown="float",
    )  # fmt: skip
    fallback: bool = declare(
        "Compute layers without native code in numpy, instead of refusing them.",
        False, kind=kinds.FLAG, panel=GOALS,
    )  # fmt: skip
    tuning: str = declare(
        "Use the fastest kernel variant of each layer as measured by csdfgen tune, and its times for predictions.",
        "", "FILE.json", kind=kinds.TEXT, panel=GOALS,
    )  # fmt: skip
    ways: str = declare("Variants of kernels, as text.", "", kind=kinds.TEXT, users=frozenset())
    fast: int = declare(
        "With --slow: the size of a small fast memory, for the most used rows: 256KiB.",
        0, kind=kinds.SIZE, panel=MEMORIES,
    )  # fmt: skip
    slow: int = declare(
        "With --fast: the size of the large slow memory: 8MiB.",
        0, kind=kinds.SIZE, panel=MEMORIES,
    )  # fmt: skip
    frames: int = declare(
        "Plan N images in one pipelined schedule; a model of batch 1 becomes one of batch N.",
        1, kind=kinds.IMAGES, panel=MEMORIES, low=1, high=kinds.MOST_IMAGES, shown="1", stored=True,
    )  # fmt: skip
    batching: str = declare(
        "joint: batches and slab heights together; vbs: a batch per layer as in paper 000, corrected; vbs-paper: as "
        "printed; greedy: layer by layer; fbs: one batch for all layers.",
        "", kind=word("fbs", "greedy", "vbs-paper", "vbs", "joint"), panel=MEMORIES,
        shown="joint, with --requests",
    )  # fmt: skip
    batches: str = declare(
        "With --frames: the number of images that a layer computes at once: a number or all, and by layer name after "
        "commas: 1,fc6=all,conv5=6+2.",
        "", kind=kinds.BATCHED, panel=MEMORIES,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, default, read in _READ:
            value = getattr(self, name)
            if value != default or isinstance(value, bool):
                # values are stored in one form, so that equal requests are equal options
                object.__setattr__(self, name, read(value, name))
        if self.backend == "auto":
            raise InputError(f"{option('backend', 'auto')}: name {' or '.join(FOLDERS)}")
        if self.fast or self.slow:
            self._check_memories()

    def _check_memories(self) -> None:
        """Raises InputError if only one memory is given, or if the fast one is larger."""
        if not (self.fast and self.slow):
            there, other = ("fast", "slow") if self.fast else ("slow", "fast")
            raise InputError(
                f"{option(there)} of {getattr(self, there):,} bytes is one of two memories; give {option(other)} too"
            )
        if self.fast > self.slow:
            raise InputError(
                f"the fast memory has {self.fast:,} bytes, more than the slow one with {self.slow:,}; "
                f"exchange {option('fast')} and {option('slow')}"
            )

    @classmethod
    def asked(cls, given: Mapping[str, Any]) -> PlanOptions:
        """The options with the given values, typed or stored, by name. Raises InputError."""
        return cls(**{name: OPTIONS[name].kind.read(value, name) for name, value in given.items()})

    @property
    def seconds(self) -> float | None:
        """Seconds that a search may take, None if the effort is a word."""
        return None if self.effort in kinds.EFFORTS else float(self.effort.removesuffix("s"))

    @property
    def search_effort(self) -> str | float:
        """The effort for a search: a word, or seconds."""
        return self.effort if self.seconds is None else self.seconds

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values. Some are always stored, others only if they differ from their default, so that
        existing files stay valid when an option is added, and those of this machine never.
        """
        return {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) != one.default or one.metadata["option"].stored
            if not one.metadata["option"].here
        }

    @classmethod
    def from_fields(cls, found: Fields) -> PlanOptions:
        """Read the options from a JSON object. Raises the error of `found`, or InputError."""
        return cls(**{one.name: _from_json(found, one.name, one.default) for one in fields(cls)})

    @property
    def weighs_parameters(self) -> bool:
        """Whether the bytes that are weighed against time are those of parameters, too; memories of a board have none."""
        return self.count not in ("activations", "flash") and not (self.fast or self.slow)

    @property
    def digest(self) -> str:
        """8 hexadecimal digits of all options."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


REQUESTS = Option(
    "Plan R images that arrive together; --batching chooses the batch of each layer, and --memory and --latency "
    "apply to all R. Several numbers make a table of plans.",
    "R[,R...]",
    MEMORIES,
    low=1,
    high=kinds.MOST_IMAGES,
    kind=kinds.IMAGES,
)
"""Declared in addition to the fields of `PlanOptions`; an alternative to --frames."""

OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        name: declared
        for one in fields(PlanOptions)
        for name, declared in (
            (one.name, one.metadata["option"]),
            *([("requests", REQUESTS)] if one.name == "frames" else ()),
        )
    }
)
"""Every option by its name, in the order of help."""

_READ = tuple(
    (one.name, one.default, one.metadata["option"].kind.read)
    for one in fields(PlanOptions)
    if one.name not in ("rows", "batches")  # long texts made by searches
)

DEFAULTS = PlanOptions()

_MOST_ROWS = 1 << 30


def ways_text(variants: Mapping[str, Mapping[int, object]]) -> str:
    """Variants of kernels (`Backend.variants_of`) by layer and slab height, as the text of `PlanOptions.ways`; "" for
    none. Each variant holds from its height up to the next one that is given.

    >>> ways_text({"conv1": {4: "tiles4", 1: "conv"}})
    '{"conv1":{"1":"conv","4":"tiles4"}}'
    """
    found = {
        layer: {str(rows): str(heights[rows]) for rows in sorted(heights)}
        for layer, heights in sorted(variants.items())
        if heights
    }
    return json.dumps(found, separators=(",", ":")) if found else ""


def parse_ways(
    text: str, read: Callable[[str], _Variant], known: str
) -> Mapping[str, Mapping[int, _Variant]]:
    """The variants that `ways_text` has written, by layer and slab height in rising order. read: the variant of a word, or
    ValueError. known: which words there are. Raises InputError.
    """
    if not text:
        return {}
    found = {}
    root = Fields(parse_json(text, "ways"), "ways")
    for layer in root.value:
        given = root.child(layer)
        heights = {}
        for rows in given.value:
            word, height = given.text(rows), parse_height(rows, given)
            try:
                heights[height] = read(word)
            except ValueError:
                raise InputError(
                    f"'{word[:20]}' is no variant; {known}", where=given.where
                ) from None
        found[layer] = dict(sorted(heights.items()))
    return found


def parse_height(key: str, place: Fields) -> int:
    """The slab height that a key of a JSON object gives. Raises the error of its place."""
    if not (key.isascii() and key.isdigit() and 0 < int(key[:11]) < _MOST_ROWS):
        raise place.fault(f"'{key[:20]}' is no slab height; whole rows above 0 are needed")
    return int(key)


def _from_json(found: Fields, name: str, default: Any) -> Any:
    """The value of an option in a JSON object."""
    declared = OPTIONS[name]
    if declared.kind.type is bool:
        return name in found and found.flag(name)
    if declared.kind.type is int:
        return found.integer(name, low=int(declared.low or 0), default=default)
    if declared.kind.type is str:
        return found.text(name, None if name in CONVERSION else default)
    value = found.value.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise found.fault(f"'{name}' is {quote(value)}; a number from 0 on is needed")
    return float(value) if value <= kinds.MOST_SECONDS else math.inf


# Options as keywords ----------------------------------------------------------------------------

_Function = TypeVar("_Function", bound=Callable[..., Any])


def keywords(*names: str) -> Callable[[_Function], _Function]:
    """Decorator of a function that takes these options of planning (by default all) as **given. It adds them to the function's
    signature, and their help to its documentation. None means that no limit is given.
    """
    taken = {
        name: one
        for name, one in OPTIONS.items()
        if "keyword" in one.users and (not names or name in names)
    }

    defaults = {
        name: one.asked or getattr(DEFAULTS, name, None) or None for name, one in taken.items()
    }

    def declared(function: _Function) -> _Function:
        own = [
            one for one in inspect.signature(function).parameters.values() if one.name != "given"
        ]
        known = {*taken, *(one.name for one in own)}

        @wraps(function)
        def called(*values: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument '{name}'"
                    )
            left = {name for name in taken if defaults[name] is None and given.get(name) is None}
            return function(*values, **{n: v for n, v in given.items() if n not in left})

        of_options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=one.kind.asked,
            )
            for name, one in taken.items()
        ]
        at = sum(one.kind is not inspect.Parameter.KEYWORD_ONLY for one in own)
        spelled = inspect.signature(function).replace(
            parameters=[*own[:at], *of_options, *own[at:]]
        )
        called.__signature__ = spelled  # type: ignore[attr-defined]
        described = [_documented(name, one) for name, one in taken.items()]
        called.__doc__ = "\n".join(
            [inspect.cleandoc(function.__doc__ or ""), "", "Options:", *described]
        )
        return called  # type: ignore[return-value]

    return declared


def _documented(name: str, declared: Option) -> str:
    """An option in the form of Python's `help`."""
    text = re.sub(r"--([a-z-]+)", lambda flag: f"`{flag[1].replace('-', '_')}`", declared.help)
    words = f" ({', '.join(declared.kind.words)})" if declared.kind.words else ""
    default = f" [default: {declared.shown}]" if declared.shown else ""
    return textwrap.fill(
        f"{name}{words}: {text}{default}", 100, initial_indent="    ", subsequent_indent="        "
    )
