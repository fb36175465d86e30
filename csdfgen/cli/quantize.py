"""`csdfgen quantize`: a float model in fewer bytes, and what that does to memory and quality."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import (
    JSON,
    OUTPUT,
    Loaded,
    NetworkArgument,
    Pixels,
    check_suffix,
    refuse,
    refuse_graph,
)
from csdfgen.cli.terminal import csv_text, escape, say, say_json, show_progress, table
from csdfgen.errors import InputError
from csdfgen.model.options import Option, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.cli.terminal import Progress
    from csdfgen.model.options import PlanOptions
    from csdfgen.planning.plan import Plan
    from csdfgen.precision.quantize import Quantized
    from runtime.images import ImageOptions


_PANEL = "Number formats"

Stored = Literal["bfloat16", "float16", "int16", "int8", "mixed"]

IntegerIo = Annotated[
    bool,
    Option(
        "Keep inputs and outputs as integers; their scales and zero points are printed and stored in the model's "
        "metadata.",
        panel=_PANEL,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Quantize(Command):
    """Store a float model in fewer bytes, calibrated on inputs: int8, int16, bfloat16, float16, or mixed by
    what each tensor costs in memory and quality.
    """

    examples = (
        "csdfgen quantize model.onnx -o int8.onnx --calibrate pictures/*.jpg --resize",
        "csdfgen quantize model.onnx -o mixed.onnx --calibrate x.npz --format mixed --arena-factor 1.25",
        "csdfgen quantize model.onnx -o mixed.onnx --calibrate x.npz --format mixed --latency 20ms --device host",
        "csdfgen quantize model.onnx -o half.onnx --format bfloat16",
    )

    model: NetworkArgument
    more: list[str] | None = argument("[FILES]...", "More files to calibrate on.", default=None)
    output: Path = declare(
        "The model in QDQ form.", Path("quantized.onnx"), "OUT.onnx", names=OUTPUT
    )
    calibrate: list[str] | None = declare(
        "Representative images or arrays, or a folder of them; repeatable. An array may hold several samples along "
        "axis 0.",
        None, "FILES|X.npz",
    )  # fmt: skip
    format: Stored = declare(
        "bfloat16, float16: activations and weights; int16: int16 activations, int8 weights; int8: both; mixed: "
        "int8, and int16 where that removes most noise.",
        "int8",
    )  # fmt: skip
    method: Literal["mse", "minmax", "percentile", "kl"] = declare(
        "The calibration of ranges: least squared error, minimum and maximum, a percentile, or least relative entropy.",
        "mse",
    )  # fmt: skip
    percentile: float | None = declare("With --method percentile.", None, "P", shown="99.99")
    arena_factor: float | None = declare(
        "mixed: the arena limit, as a multiple of the int8 arena.", None, "F", shown="1"
    )
    memory: str | None = declare("mixed: the arena limit: 256KiB, 1MB.", None, "BYTES")
    min_sqnr: float | None = declare(
        "mixed: the smallest arena of this quality, or the fastest with --goal speed; bfloat16, float16: keep as few "
        "layers as possible in float32 to reach it.",
        None, "DB",
    )  # fmt: skip
    latency: str | None = declare(
        "mixed: the limit of the predicted latency on --device: 20ms, 0.5s; alone or with a memory limit.",
        None, "TIME",
    )  # fmt: skip
    goal: Literal["memory", "speed"] = declare(
        "With --min-sqnr: the smallest arena, or the shortest predicted latency.", "memory"
    )
    device: str | None = declare(
        "The device for which times are predicted (see csdfgen devices); required by --latency. host: this machine, "
        "once csdfgen profile MODEL --formats mixed has measured it.",
        None, "NAME|FILE.toml", shown="native-core or numpy-core, by backend",
    )  # fmt: skip
    integer_io: IntegerIo = False
    front: Path | None = declare(
        "mixed: write the front of quality and arena (.csv, .json).", None, "FILE"
    )
    pixels: Pixels
    loaded: Loaded
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Calibrate, choose, write, report. Raises CsdfgenError."""
        from csdfgen.files import write_bytes

        if self.percentile is not None and self.method != "percentile":
            raise typer.BadParameter("goes with --method percentile", param_hint="--percentile")
        asked, images = self.loaded.read(), self.pixels.read()
        refuse_graph(self.model, ", which has no values; give the model")
        lost = "is the model itself, which would be lost; give another -o"
        refuse([(_is_same(self.output, self.model), f"{self.output}: {lost}")])
        check_suffix(self.output, "a quantized model", ".onnx")
        check_suffix(self.front, "a front", ".csv", ".json")
        names = (
            "format", "method", "percentile", "arena_factor", "memory", "min_sqnr", "latency", "goal", "device",
        )  # fmt: skip
        request = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.integer_io:
            request["integer_io"] = True
        files = [*(self.calibrate or ()), *(self.more or ())]
        with show_progress() as progress:
            made = _made(
                self.model,
                asked,
                files,
                images,
                progress,
                with_front=self.front is not None,
                **request,
            )
        made.save(self.output)
        if self.front is not None:
            write_bytes(self.front, _front_file(made, self.front.suffix.lower()))
        if self.as_json:
            say_json(self._json(made))
        else:
            self._say(made)

    def _say(self, made: Quantized) -> None:
        say_formats(self.output, made)
        sizes = {"float": made.float_arena, "int8": made.int8_arena}
        sizes[self.format] = made.plan.figures["arena"]
        say(
            table(
                "arena of the default plan", "> bytes", "> of float",
                rows=(
                    (name, size, f"{size / made.float_arena:.3f}")
                    for name, size in sizes.items() if size is not None
                ),
            )
        )  # fmt: skip
        say_quality(made)
        say(f"a frame: {1e3 * made.predicted_seconds:.4g} ms predicted on {escape(made.device)}")
        for row in made.front:
            tensors = pluralize(row.stored, "tensor")
            say(f"  {row.arena:,} bytes: {row.sqnr_db:.1f} dB predicted, {tensors} in int16")

    def _json(self, made: Quantized) -> dict[str, Any]:
        return {
            "ok": True,
            "output": str(self.output),
            "format": self.format,
            **made.facts(),
            **made.end_facts(),
            "figures": {
                **made.plan.figures,
                "float_arena": made.float_arena,
                **({} if made.int8_arena is None else {"int8_arena": made.int8_arena}),
            },
            "predicted_seconds": made.predicted_seconds,
            "device": made.device,
            **({"front": [one.to_json() for one in made.front]} if made.front else {}),
        }


def _is_same(output: Path, model: str) -> bool:
    try:
        return output.samefile(model)
    except (OSError, ValueError):  # one of them is not there, or is no name
        return False


def _front_file(made: Quantized, suffix: str) -> bytes:
    """The front as a file: CSV with a line for each choice, or JSON with the names of tensors too."""
    if suffix == ".json":
        return (json.dumps([one.to_json() for one in made.front], indent=2) + "\n").encode()
    rows = [(one.arena, f"{one.sqnr_db:.2f}", one.stored) for one in made.front]
    return csv_text([("arena_bytes", "predicted_sqnr_db", "int16_tensors"), *rows])


def _made(
    model: str,
    asked: Asked,
    files: Sequence[str],
    images: ImageOptions,
    progress: Progress,
    **request: Any,
) -> Quantized:
    """What `csdfgen.quantize` makes of a model, calibrated on files. Raises CsdfgenError."""
    from csdfgen.cli.models import load_network
    from csdfgen.precision.quantize import quantize
    from runtime.images import read_frames

    progress("loading")
    frames = read_frames(files, load_network(model, asked), images)
    return quantize(
        model,
        frames or None,
        shapes=asked.shapes or None,
        fix=asked.fixed,
        progress=progress,
        **request,
    )


# With a plan ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Formats:
    """The formats that `schedule` plans a float model in."""

    formats: Stored | None = declare(
        "Quantize the float model, as csdfgen quantize does, and plan it; plan.onnx is written next to plan.json. "
        "mixed with --memory: the formats of least noise that fit.",
        None, panel=_PANEL,
    )  # fmt: skip
    calibrate: list[str] | None = declare(
        "With --formats: representative images or arrays, or a folder of them; repeatable.",
        None, "FILES|X.npz", _PANEL,
    )  # fmt: skip
    integer_io: IntegerIo = False
    pixels: Pixels

    def check(self) -> None:
        """Raise InputError for what goes with --formats alone."""
        given = {"calibrate": self.calibrate, "integer-io": self.integer_io, **vars(self.pixels)}
        alone = [name for name, value in given.items() if value]
        if self.formats is None and alone:
            raise InputError(f"--{alone[0]} goes with --formats; name one, such as --formats int8")

    def quantized(
        self, model: str, asked: Asked, planning: PlanOptions, progress: Progress
    ) -> Quantized:
        """A model in other formats, with the plan of it that is asked for. Raises CsdfgenError."""
        from csdfgen.model.formats import ARITHMETIC

        if self.formats not in ARITHMETIC and not self.calibrate:
            raise InputError(
                f"--formats {self.formats} is chosen by what inputs show; give some with --calibrate FILES",
                where=model,
            )
        return _made(
            model, asked, self.calibrate or (), self.pixels.read(), progress,
            format=self.formats, integer_io=self.integer_io, planning=planning,
        )  # fmt: skip


def write_quantized(path: Path, made: Quantized, plan: Plan) -> Plan:
    """Write the model; the plan with the model's path. Raises InputError."""
    made.save(path)
    conversion = plan.conversion
    network = replace(conversion.network, source=str(path))
    return replace(plan, conversion=replace(conversion, network=network))


def say_formats(path: Path | None, made: Quantized) -> None:
    """How many tensors are of which type."""
    kinds = ", ".join(f"{count} {dtype}" for dtype, count in made.formats.items())
    if made.wide_weights:
        kinds += f"; weights of 16 bits in {pluralize(made.wide_weights, 'layer')}"
    say(f"{'' if path is None else escape(f'{path}: ')}tensors: {kinds}", wrap=False)


def say_quality(made: Quantized) -> None:
    """Signal to noise, and how integers at the ends become values."""
    if made.sqnr_db is not None:
        said = f"signal to noise against the float network, on what it was calibrated with: {made.sqnr_db:.1f} dB"
        if made.predicted_sqnr_db is not None:
            said += f" (predicted {made.predicted_sqnr_db:.1f})"
        say(said)
    say(*map(escape, _ends_said(made)))


def _ends_said(made: Quantized) -> Iterator[str]:
    """A line for each input and output that is integers."""
    for kind, ends in (("input", made.ends.inputs), ("output", made.ends.outputs)):
        for name, form in ends.items():
            assert form.scale is not None and form.zero_point is not None
            zero = form.zero_point[0]
            shifted = f"(integer {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "integer"
            yield f"{kind} {name}: {form.dtype}, value = {shifted} * {form.scale[0]:.9g}"
