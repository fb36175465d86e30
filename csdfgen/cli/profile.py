"""`csdfgen profile`: measure this machine, layer shape by layer shape, or compare two measurements."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text
from threadpoolctl import threadpool_limits

from csdfgen import __version__
from csdfgen.backends.registry import AUTO, settled
from csdfgen.cli.models import load_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import console, counted, plain, stages, table
from csdfgen.devices import facts
from csdfgen.devices.boards import imported_profile
from csdfgen.devices.difference import Difference, difference
from csdfgen.devices.files import (
    profile_from_toml,
    profile_to_toml,
    read_profile,
    write_profile,
)
from csdfgen.devices.measure import CACHE_STATE, REPEATS, SECONDS, measured_profile, sample_network
from csdfgen.devices.profile import DeviceProfile, LayerCost
from csdfgen.devices.samples import sample_model
from csdfgen.errors import InputError, about
from csdfgen.files import check_writable
from csdfgen.model.network import Network

__all__ = ["ProfileRequest", "parse_counts", "run_difference", "run_import", "run_profile"]

_SHOWN_LAYERS = 20
_SHOWN_KEY = 90


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What the user asked for; model None: the built-in layers; repeats None: the usual number, and
    a second at least; formats: also those that `csdfgen.quantize` makes, "" for the model as it is alone.
    """

    model: str | None
    output: Path
    options: ModelOptions
    heights: tuple[int, ...]
    repeats: int | None
    threads: int
    backend: str = AUTO
    formats: str = ""
    batches: tuple[int, ...] = ()


def parse_counts(text: str, name: str, unit: str) -> tuple[int, ...]:
    """(1, 4) from "1,4". name: of the option; unit: of what they are numbers. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(
        part.isascii() and part.isdigit() and len(part) <= 6 and int(part) > 0 for part in parts
    ):
        raise InputError(
            f"--{name} {text}: whole numbers of {unit} above 0 are needed, such as 1,2,4"
        )
    return tuple(sorted({int(part) for part in parts}))


def run_profile(request: ProfileRequest) -> None:
    """Measure and write the profile. Raises CsdfgenError."""
    _check_name(request.output)
    if request.model is not None and is_graph_file(request.model):
        raise InputError("is a graph, which cannot be run; give the model", where=request.model)
    check_writable(request.output)
    with stages() as stage, threadpool_limits(limits=request.threads, user_api="blas"):
        stage("loading")
        network = (
            load_network(request.model, request.options)
            if request.model is not None
            else sample_model()
        )
        networks = [network, *_in_formats(request)]
        told = {**facts.board_facts(), **facts.software_facts(request.threads)}
        stage("building native code, once on this machine")
        backend = settled(request.backend)
        found = []
        for number, one in enumerate(networks, 1):
            stage("planning")
            part = f", network {number} of {len(networks)}" if len(networks) > 1 else ""
            found.append(
                sample_network(
                    one,
                    request.heights,
                    request.repeats or REPEATS,
                    request.options.fuse or "full",
                    request.threads,
                    lambda done, total, part=part: stage(f"measuring{part}", done, total),  # type: ignore[misc]
                    seconds=0.0 if request.repeats else SECONDS,
                    backend=backend,
                    images=request.batches,
                )
            )
    told |= {
        "csdfgen": __version__,
        "date": datetime.date.today().isoformat(),
        "model": Path(network.source or network.name).name,
        "heights": ", ".join(map(str, request.heights)),
        **({"formats": f"float32, {request.formats}"} if request.formats else {}),
        **({"images": ", ".join(map(str, request.batches))} if request.batches else {}),
        "repeats": str(min(one.repeats for one in found)),
        "backend": backend,
        "clock read": "processor time of the one thread" if request.threads == 1 else "time of day",
        "cache state": CACHE_STATE,
        "load after": facts.board_facts()["load"],
    }
    memory, processor = facts.machine()
    title = f"{told['cpu'] if told['board'] == facts.NOT_TOLD else told['board']}, measured {told['date']}"
    profile = measured_profile(found, request.output.stem, title, memory, processor, told)
    write_profile(request.output, profile)
    _print_profile(profile, request.output)


def _in_formats(request: ProfileRequest) -> list[Network]:
    """The same model in the formats that are asked for. Raises CsdfgenError."""
    if not request.formats:
        return []
    if request.model is None:
        raise InputError(
            f"--formats {request.formats} is of a float model; name one (the built-in layers are float32)"
        )
    from csdfgen.precision.variants import variants
    from csdfgen.reading.loader import load

    options = request.options
    with about(request.model):
        return [
            load(model, shapes=dict(options.shapes), batch=options.batch)
            for model in variants(request.model, request.formats)
        ]


def run_import(result: Path, output: Path) -> None:
    """Write the profile of the board that wrote a result. Raises InputError."""
    _check_name(output)
    profile = imported_profile(result, output.stem, datetime.date.today().isoformat())
    # numbers that no device has are refused now, not where the profile is used
    profile_from_toml(profile_to_toml(profile).encode(), str(result))
    write_profile(output, profile)
    _print_profile(profile, output)


def _check_name(output: Path) -> None:
    if output.suffix.lower() != ".toml":
        raise InputError("a profile is written as .toml", where=str(output))


def _print_profile(profile: DeviceProfile, path: Path) -> None:
    out = console()
    layers = sorted(profile.layers.values(), key=lambda layer: -layer.error.value)
    rows = table(
        "layer shape",
        "launch us",
        "us/row",
        "fit error",
        "spread",
        right=("launch us", "us/row", "fit error", "spread"),
    )
    for layer in layers[:_SHOWN_LAYERS]:
        spread = max(layer.spread.written)
        launch, slope = f"{layer.launch.written:.2f}", f"{layer.slope.written:.3f}"
        rows.add_row(
            _short(layer.key), launch, slope, f"{layer.error.written:.1f} %", f"{spread:.0f} %"
        )
    out.print(rows)
    if len(layers) > _SHOWN_LAYERS:
        out.print(f"and {len(layers) - _SHOWN_LAYERS} with smaller errors")
    out.print(
        f"\n{path}: {counted(len(layers), 'layer shape')}, {counted(len(profile.operators), 'operator kind')}; "
        f"median of the largest fit error of each {_middle(layers):.1f} %; error: largest distance of launch + rows * slope "
        "from a measured height; spread: between the quartiles of the repeats"
    )
    for name, text in profile.conditions.items():
        out.print(Text(f"  {name:<12} {plain(text)}", style="dim"))


def _middle(layers: list[LayerCost]) -> float:
    return layers[len(layers) // 2].error.written if layers else 0.0


def _short(key: str) -> str:
    return plain(key if len(key) <= _SHOWN_KEY else key[: _SHOWN_KEY - 3] + "...")


def run_difference(before: Path, after: Path, as_json: bool) -> None:
    """Compare two measured profiles. Raises InputError."""
    found = difference(read_profile(before), read_profile(after))
    if as_json:
        print(json.dumps(_difference_json(found), indent=2, allow_nan=False))
        return
    out = console()
    rows = table(
        "layer shape",
        "rows",
        "before us",
        "after us",
        "ratio",
        "spread",
        right=("rows", "before us", "after us", "ratio"),
    )
    for layer in found.layers[:_SHOWN_LAYERS]:
        numbers = (
            str(layer.rows),
            f"{1e6 * layer.before:.2f}",
            f"{1e6 * layer.after:.2f}",
            f"{layer.ratio:.2f}",
        )
        rows.add_row(_short(layer.key), *numbers, f"{layer.noise:.0%}")
    out.print(rows)
    if len(found.layers) > _SHOWN_LAYERS:
        out.print(f"and {len(found.layers) - _SHOWN_LAYERS} that changed less")
    out.print(
        f"\n{plain(str(after))} against {plain(str(before))}: {counted(len(found.layers), 'layer shape')} in both, "
        f"{found.ratio:.3f} times the time by geometric mean; "
        f"{len(found.only_before)} only in the first, {len(found.only_after)} only in the second"
    )
    for name, (old, new) in found.conditions.items():
        out.print(Text(f"  {name}: {plain(old)} -> {plain(new)}", style="dim"))


def _difference_json(found: Difference) -> dict[str, object]:
    return {
        "ratio": found.ratio,
        "layers": [
            {
                "key": one.key,
                "rows": one.rows,
                "before_us": 1e6 * one.before,
                "after_us": 1e6 * one.after,
                "ratio": one.ratio,
            }
            for one in found.layers
        ],
        "only_before": list(found.only_before),
        "only_after": list(found.only_after),
        "conditions": {name: list(pair) for name, pair in found.conditions.items()},
    }
