"""`csdfgen profile`: measure this machine, layer shape by layer shape, read what a board has measured, or compare
two measurements.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from csdfgen import __version__
from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import (
    OUTPUT,
    JsonOption,
    Typed,
    check_suffix,
    option_group,
    parse_counts,
    refuse_graph,
)
from csdfgen.cli.quantize import Stored
from csdfgen.cli.terminal import cut, dim_text, escape, say, say_json, show_progress, table
from csdfgen.errors import InputError, prefix_errors
from csdfgen.files import check_writable
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.devices.profile import DeviceProfile
    from csdfgen.model.network import Network


_SHOWN_LAYERS = 20
_SHOWN_KEY = 90


@option_group("backend", "cl_device", "fuse", "shape", "fix", "batch")
class _Measured(Typed):
    """How the model is loaded, and by whose kernels it is computed."""


@dataclass(frozen=True, kw_only=True)
class Profile(Command):
    """Measure the phases of a model's layers on this machine, and fit launch + rows * slope to each
    layer shape.

    With -o FILE.json and --batches, measure the stages that csdfgen serve cuts the model into, for csdfgen simulate.
    """

    examples = (
        "csdfgen profile model.onnx -o host.toml",
        "csdfgen profile --heights 1,4,16 --repeats 31",
        "csdfgen profile --diff before.toml after.toml",
        "csdfgen profile --import result.json -o board.toml",
        "csdfgen profile model.onnx --batches 8 -o times.json",
    )

    model: str | None = argument("[MODEL]", "ONNX model; without it built-in layers.", default=None)
    output: Path = declare("The profile.", Path("host.toml"), "FILE", names=OUTPUT)
    heights: str = declare("Slab heights to measure.", "1,2,3,6,12", "N,N,...")
    batches: str | None = declare(
        "Also measure layers on these numbers of images at once; times then come from tables instead of the fit.",
        None, "N,N,...",
    )  # fmt: skip
    repeats: int | None = declare(
        "Timed frames per height.",
        None,
        "N",
        low=1,
        high=10_000,
        shown="11, and at least one second",
    )
    threads: int = declare("Linear-algebra threads.", 1, "N", low=1, high=1024)
    formats: Stored | None = declare(
        "Also measure MODEL quantized to this format; mixed: layers in int8 and int16, and the conversions between "
        "them.",
        None,
    )  # fmt: skip
    planning: _Measured
    diff: tuple[Path, Path] | None = declare(
        "Compare two profiles, without measuring.", None, "A B"
    )
    result: Path | None = declare(
        "Import what a bundle measured on a board, without measuring.",
        None, "RESULT", names=("--import",),
    )  # fmt: skip
    as_json: JsonOption = False

    def run(self) -> None:
        """Measure and write the profile. Raises CsdfgenError."""
        if self.diff is not None and self.model is not None:
            raise typer.BadParameter(
                "compares two profiles and takes no MODEL", param_hint="--diff"
            )
        if self.diff is None and self.result is not None and self.model is not None:
            raise typer.BadParameter("reads a result and takes no MODEL", param_hint="--import")
        if self.diff is not None:
            _show_difference(*self.diff, self.as_json)
        elif self.result is not None:
            self._import(self.result)
        elif self.output.suffix == ".json":
            self._stages()
        else:
            self._measure()

    def _stages(self) -> None:
        """Write the times of a model's stages for batches up to the largest that is given. Raises InputError."""
        from csdfgen.cli.models import load_network
        from csdfgen.serving.programs import REPEATS, Programs, measure_times
        from csdfgen.serving.service import plan
        from csdfgen.serving.times import MOST_BATCH, times_to_json, write_times

        check_writable(self.output)
        if self.model is None or self.batches is None:
            raise InputError(
                "a profile is written as .toml; times of stages as .json, with a MODEL and --batches",
                where=str(self.output),
            )
        asked = self.planning.read()
        most = parse_counts(self.batches, "batches", "images", MOST_BATCH)[-1]
        given = {name: one for name, one in asked.given.items() if name in ("backend", "fuse")}
        with show_progress() as progress:
            progress("planning")
            service = plan(load_network(self.model, asked), max_batch=most, **given)
            progress("measuring")
            times = measure_times(Programs(service, self.threads), self.repeats or REPEATS)
        write_times(self.output, times)
        if self.as_json:
            say_json({"output": str(self.output), **times_to_json(times)})
            return
        rows = [
            (one.name, *(f"{1e3 * v:.3f}" for v in one.seconds), f"{100 * max(one.spread):.1f} %")
            for one in times.stages
        ]
        columns = (*(f"> {b} images" for b in times.stages[0].batches), "> spread")
        say(
            table("stage from, ms", *columns, rows=rows),
            f"\n{escape(self.output)}: {pluralize(times.count, 'stage')}; load 1 is {times.capacity:.1f} images a second",
        )

    def _import(self, result: Path) -> None:
        """Write the profile of the board that wrote a result. Raises InputError."""
        from csdfgen.devices.boards import import_profile
        from csdfgen.devices.files import profile_from_toml, profile_to_toml, write_profile

        check_suffix(self.output, "a profile", ".toml")
        profile = import_profile(result, self.output.stem, datetime.date.today().isoformat())
        # numbers that no device has are refused now, not where the profile is used
        profile_from_toml(profile_to_toml(profile).encode(), str(result))
        write_profile(self.output, profile)
        self._show(profile)

    def _show(self, profile: DeviceProfile) -> None:
        from csdfgen.devices.files import profile_to_json

        if self.as_json:
            say_json({"output": str(self.output), **profile_to_json(profile)})
        else:
            _show(profile, self.output)

    def _measure(self) -> None:
        from threadpoolctl import threadpool_limits

        from csdfgen.backends.registry import AUTO, load_backend, resolve_backend
        from csdfgen.cli.models import load_network
        from csdfgen.devices import energy, facts, measure
        from csdfgen.devices.files import write_profile
        from csdfgen.devices.samples import Sample, sample_models

        asked = self.planning.read()
        heights = parse_counts(self.heights, "heights", "rows")
        images = () if self.batches is None else parse_counts(self.batches, "batches", "images")
        check_suffix(self.output, "a profile", ".toml")
        if self.model is not None:
            refuse_graph(self.model, ", which cannot be run; give the model")
        with show_progress() as progress, threadpool_limits(limits=self.threads, user_api="blas"):
            fuse = asked.given.get("fuse", "full")
            progress("loading")
            network = load_network(self.model, asked) if self.model is not None else None
            samples = [Sample(one, fuse) for one in (network, *self._in_formats(asked)) if one]
            told = {**facts.board_facts(), **facts.software_facts(self.threads)}
            progress("building native code, once on this machine")
            backend = resolve_backend(asked.given.get("backend", AUTO))
            device = asked.given.get("cl_device", "")
            kernels = load_backend(backend, cl_device=device)
            samples = samples or [
                one
                for one in sample_models()
                if all(kernels.refusal(layer) is None for layer in one.network.layers)
            ]
            found, meter = [], energy.Meter()
            for number, one in enumerate(samples, 1):
                progress("planning")
                part = f", network {number} of {len(samples)}" if len(samples) > 1 else ""

                def measuring(done: int, total: int, part: str = part) -> None:
                    progress(f"measuring{part}", done, total)
                    (meter.begin if done == 1 else meter.read)()

                found.append(
                    measure.sample_network(
                        one.network, heights, self.repeats or measure.REPEATS, one.fuse, self.threads, measuring,
                        seconds=0.0 if self.repeats else measure.SECONDS / (1 if network else len(samples)),
                        backend=backend, images=images, cl_device=device, ways=one.ways if kernels.emits else "",
                        cached=one.cached,
                    )
                )  # fmt: skip
        driven = found[0].device
        clock = "time of day" if self.threads > 1 else "processor time of the one thread"
        clock = "the device's own" if driven else clock
        told |= {
            "csdfgen": __version__,
            "date": datetime.date.today().isoformat(),
            "model": Path(network.source or network.name).name if network else "built-in layers",
            "heights": ", ".join(map(str, heights)),
            **({"formats": f"float32, {self.formats}"} if self.formats else {}),
            **({"images": ", ".join(map(str, images))} if images else {}),
            "repeats": str(min(one.repeats for one in found)),
            "backend": backend,
            "kernels": kernels.code,
            "clock read": clock,
            "cache state": measure.CACHE_STATE,
            "load after": facts.board_facts()["load"],
        }
        memory, processor = facts.machine()
        board = driven or (told["cpu"] if told["board"] == facts.NOT_TOLD else told["board"])
        title = f"{board}, measured {told['date']}"
        profile = measure.make_profile(found, self.output.stem, title, memory, processor, told)
        profile = energy.add_power(profile, meter)
        write_profile(self.output, profile)
        self._show(profile)

    def _in_formats(self, asked: Asked) -> list[Network]:
        """The same model in the formats that are asked for. Raises CsdfgenError."""
        if self.formats is None:
            return []
        if self.model is None:
            raise InputError(
                f"--formats {self.formats} is of a float model; name one (the built-in layers are float32)"
            )
        from csdfgen.precision.variants import variants
        from csdfgen.reading.loader import load

        with prefix_errors(self.model):
            return [
                load(model, shapes=dict(asked.shapes), batch=asked.batch, fix=asked.fixed)
                for model in variants(self.model, self.formats)
            ]


def _show(profile: DeviceProfile, path: Path) -> None:
    layers = sorted(profile.layers.values(), key=lambda layer: -layer.error.value)
    rows = (
        (
            cut(one.key, _SHOWN_KEY), f"{one.launch.written:.2f}", f"{one.slope.written:.3f}",
            f"{one.error.written:.1f} %", f"{max(one.spread.written):.0f} %",
        )
        for one in layers[:_SHOWN_LAYERS]
    )  # fmt: skip
    say(table("layer shape", "> launch us", "> us/row", "> fit error", "> spread", rows=rows))
    if len(layers) > _SHOWN_LAYERS:
        say(f"and {len(layers) - _SHOWN_LAYERS} with smaller errors")
    middle = layers[len(layers) // 2].error.written if layers else 0.0
    say(
        f"\n{escape(path)}: {pluralize(len(layers), 'layer shape')}, {pluralize(len(profile.operators), 'operator kind')}; "
        f"median of the largest fit error of each {middle:.1f} %; error: largest distance of launch + rows * slope "
        "from a measured height; spread: between the quartiles of the repeats",
        *(dim_text(f"  {name:<12} {text}") for name, text in profile.conditions.items()),
    )


def _show_difference(before: Path, after: Path, as_json: bool) -> None:
    """Compare two measured profiles. Raises InputError."""
    from csdfgen.devices.difference import difference
    from csdfgen.devices.files import read_profile

    found = difference(read_profile(before), read_profile(after))
    if as_json:
        say_json(found.to_json())
        return
    rows = (
        (
            cut(one.key, _SHOWN_KEY), str(one.rows), f"{1e6 * one.before:.2f}", f"{1e6 * one.after:.2f}",
            f"{one.ratio:.2f}", f"{one.noise:.0%}",
        )
        for one in found.layers[:_SHOWN_LAYERS]
    )  # fmt: skip
    say(table("layer shape", "> rows", "> before us", "> after us", "> ratio", "spread", rows=rows))
    if len(found.layers) > _SHOWN_LAYERS:
        say(f"and {len(found.layers) - _SHOWN_LAYERS} that changed less")
    say(
        f"\n{escape(after)} against {escape(before)}: {pluralize(len(found.layers), 'layer shape')} in both, "
        f"{found.ratio:.3f} times the time by geometric mean; "
        f"{len(found.only_before)} only in the first, {len(found.only_after)} only in the second",
        *(dim_text(f"  {name}: {old} -> {new}") for name, (old, new) in found.conditions.items()),
    )
