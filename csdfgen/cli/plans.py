"""From an argument that is a plan file, or a model with options, to a plan and what made it.

A plan file names the model that it was made for; that is looked for beside the file, then in the
working directory. `MODEL+rows=1+policy=demand` is a model with options of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import MappingProxyType

from csdfgen.backends.registry import kernels_for
from csdfgen.cli.models import load_network, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file, parse_shape
from csdfgen.cli.terminal import Stage
from csdfgen.errors import CsdfgenError, InputError, PlanError
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, OPTIONS
from csdfgen.planning.plan import Plan
from csdfgen.planning.saved import SavedPlan, read_saved
from csdfgen.reading.zoo import is_zoo_name
from schedules.demand import POLICIES

__all__ = ["Asked", "Planned", "parse_asked", "planned"]

_DEFAULT_POLICY = "best"

_WISHES = tuple(
    name
    for name, one in OPTIONS.items()
    if "flag" in one.users and name not in (*CONVERSION, "policy", "frames", "requests")
)
_SETTINGS = (*CONVERSION, "batch", "shape", "policy", *_WISHES)
"""What may stand behind a model, between plus signs."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A model or a plan file as typed, with what was said about it; model: whose plan the file is."""

    source: str
    options: ModelOptions
    policy: str | None = None
    model: str | None = None

    @property
    def is_plan(self) -> bool:
        return is_graph_file(self.source)

    def flags(self) -> list[str]:
        """The options as the commands for models take them."""
        found = []
        for name in ("rows", "fuse", "image", "batch"):
            value = getattr(self.options, name)
            if value is not None:
                found += [f"--{name}", str(value)]
        for name, shape in self.options.shapes.items():
            found += ["--shape", f"{name}={'x'.join(map(str, shape))}"]
        for name, value in self.options.wishes.items():
            if name != "device":  # a command's own
                unit = _UNITS.get(name, "")
                found += [self.options.flag(name), f"{value:g}{unit}" if unit else str(value)]
        return [*found, "--policy", self.policy] if self.policy else found


_UNITS = MappingProxyType({"latency": "s", "energy": "J"})
"""Of wishes that are numbers."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the model that it is of (a file, or a name of the zoo), and that as it was loaded."""

    plan: Plan
    model: str
    asked: Asked
    network: Network

    @property
    def title(self) -> str:
        """The model's name for people."""
        name = self.model.removeprefix("zoo:")
        return name if is_zoo_name(self.model) else PurePath(name).stem

    def command(self, *words: str) -> str:
        """A command line of ours, to be typed in a shell."""
        return shlex.join(["csdfgen", *words])


def parse_asked(text: str) -> Asked:
    """A model with options behind plus signs, or a plan file. Raises InputError.

    >>> one = parse_asked("zoo:lenet5+rows=1+policy=demand")
    >>> one.source, one.options.rows, one.policy
    ('zoo:lenet5', '1', 'demand')
    """
    if Path(text).exists():
        return Asked(text, ModelOptions())
    source, *settings = re.split(r"\+(?=(?:\w+)=)", text)
    values: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in _SETTINGS:
            raise InputError(f"'+{name}=' is no option; {', '.join(_SETTINGS)} are", where=text)
        if name == "shape":
            tensor, shape = parse_shape(value)
            shapes[tensor] = shape
        elif name in values:
            raise InputError(f"'+{name}=' is given twice", where=text)
        else:
            values[name] = value
    batch, policy = values.pop("batch", None), values.pop("policy", None)
    if batch is not None and not (
        batch.isascii() and batch.isdigit() and 0 < int(batch[:7]) <= 10**6
    ):
        raise InputError(f"'+batch={batch}' is no number from 1 to 1000000", where=text)
    options = ModelOptions(
        values.get("rows"),
        values.get("fuse"),
        values.get("image"),
        shapes,
        None if batch is None else int(batch),
        {name: values[name] for name in _WISHES if name in values},
    )
    return Asked(source, options, policy)


def planned(asked: Asked, stage: Stage) -> Planned:
    """Read or make the plan. Raises CsdfgenError."""
    if not asked.is_plan:
        if asked.policy not in (None, _DEFAULT_POLICY, *POLICIES):
            raise InputError(
                f"--policy {asked.policy} is not one of {', '.join(POLICIES)}", where=asked.source
            )
        stage("loading")
        network = load_network(asked.source, asked.options)
        stage("planning")
        plan = plan_network(network, asked.options, asked.policy or _DEFAULT_POLICY, stage=stage)
        return Planned(plan, asked.source, asked, network)
    if asked.flags():
        raise InputError(
            f"is a plan, which says how it was made; leave {asked.flags()[0]} out",
            where=asked.source,
        )
    if PurePath(asked.source).suffix.lower() == ".xml":
        raise InputError(
            "is a graph; give a model, or a plan (csdfgen schedule MODEL -o plan.json)",
            where=asked.source,
        )
    stage("reading the plan")
    saved = read_saved(asked.source)
    model = asked.model or _model_of(saved, Path(asked.source))
    try:
        network = load_network(model, ModelOptions(shapes=saved.inputs))
    except CsdfgenError as error:
        message = f"made for '{saved.model}', cannot be loaded with the plan's shapes: {error}"
        raise PlanError(message, where=saved.where) from None
    if network.batch != saved.batch:
        raise PlanError(
            f"is for {saved.batch} images in inputs of {network.batch}", where=saved.where
        )
    return Planned(saved.plan(network, kernels_for(saved.planned_with)), model, asked, network)


def _model_of(saved: SavedPlan, file: Path) -> str:
    """Where the model lies that a plan was made for."""
    if is_zoo_name(saved.model):
        return saved.model
    name = PurePath(saved.model).name
    places: Sequence[Path] = (file.parent / name, Path(name))
    found = next((place for place in places if name and place.is_file()), None)
    if found is None:
        raise PlanError(
            f"made for '{saved.model}', which lies neither beside it nor here; say where with --model FILE",
            where=saved.where,
        )
    return str(found)
