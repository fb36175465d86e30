"""`csdfgen quantize`: a float model in fewer bytes, and what that does to memory and quality."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from csdfgen.cli.models import load_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import Stage, console, counted, plain, stages, table
from csdfgen.errors import InputError
from csdfgen.files import check_writable, write_bytes
from csdfgen.model.options import PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.precision.choice import Chosen
from csdfgen.precision.quantize import Quantized, quantize
from runtime.images import ImageOptions, read_frames

__all__ = [
    "Formats",
    "QuantizeRequest",
    "ends_facts",
    "formats_facts",
    "quantized",
    "run_quantize",
    "say_formats",
    "say_quality",
    "written_beside",
]


@dataclass(frozen=True, slots=True)
class QuantizeRequest:
    """What the user asked for. wishes: options of `csdfgen.quantize`."""

    model: str
    output: Path
    calibrate: Sequence[str]
    options: ModelOptions
    images: ImageOptions
    front: Path | None
    as_json: bool
    wishes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Formats:
    """What `schedule` is to plan a float model in. calibrate: files."""

    format: str
    calibrate: Sequence[str]
    images: ImageOptions
    integer_io: bool = False


def quantized(
    model: str, asked: Formats, options: ModelOptions, planning: PlanOptions, stage: Stage
) -> Quantized:
    """A model in other formats, with the plan of it that is asked for. Raises CsdfgenError."""
    if asked.format != "float16" and not asked.calibrate:
        raise InputError(
            f"--formats {asked.format} is chosen by what inputs show; give some with --calibrate FILES",
            where=model,
        )
    wishes = {"format": asked.format, "integer_io": asked.integer_io, "planning": planning}
    return _made(model, options, asked.calibrate, asked.images, stage, **wishes)


def _made(
    model: str,
    options: ModelOptions,
    files: Sequence[str],
    images: ImageOptions,
    stage: Stage,
    **wishes: Any,
) -> Quantized:
    """What `csdfgen.quantize` makes of a model, calibrated on files."""
    stage("loading")
    frames = read_frames(files, load_network(model, options), images)
    return quantize(model, frames or None, shapes=options.shapes or None, progress=stage, **wishes)


def written_beside(path: Path, made: Quantized, plan: Plan) -> Plan:
    """Write the model; a plan of it, which now says where it is. Raises InputError."""
    made.save(path)
    conversion = plan.conversion
    network = replace(conversion.network, source=str(path))
    return replace(plan, conversion=replace(conversion, network=network))


def run_quantize(request: QuantizeRequest) -> None:
    """Calibrate, choose, write, say. Raises CsdfgenError."""
    if is_graph_file(request.model):
        raise InputError("is a graph, which has no values; give the model", where=request.model)
    if _is_same(request.output, request.model):
        raise InputError(
            "is the model itself, which would be lost; give another -o", where=str(request.output)
        )
    for path, suffixes in ((request.output, (".onnx",)), (request.front, (".csv", ".json"))):
        if path is not None:
            if path.suffix.lower() not in suffixes:
                raise InputError(f"is written as {' or '.join(suffixes)}", where=str(path))
            check_writable(path)
    with stages() as stage:
        made = _made(
            request.model,
            request.options,
            request.calibrate,
            request.images,
            stage,
            with_front=request.front is not None,
            **request.wishes,
        )
    made.save(request.output)
    if request.front is not None:
        write_bytes(request.front, _front_file(made, request.front.suffix.lower()))
    _say(request, made)


def _is_same(output: Path, model: str) -> bool:
    try:
        return output.samefile(model)
    except (OSError, ValueError):  # one of them is not there, or is no name
        return False


def _say(request: QuantizeRequest, made: Quantized) -> None:
    if request.as_json:
        print(json.dumps(_json(request, made), indent=2, allow_nan=False))
        return
    out = console()
    say_formats(request.output, made)
    arena = made.plan.figures["arena"]
    shown = table("arena of the default plan", "bytes", "of float", right=("bytes", "of float"))
    shown.add_row("float", f"{made.float_arena:,}", "1.000")
    if made.int8_arena is not None:
        shown.add_row("int8", f"{made.int8_arena:,}", f"{made.int8_arena / made.float_arena:.3f}")
    shown.add_row(request.wishes["format"], f"{arena:,}", f"{arena / made.float_arena:.3f}")
    out.print(shown)
    say_quality(made)
    out.print(f"a frame: {1e3 * made.predicted_seconds:.4g} ms predicted on {plain(made.device)}")
    for row in made.front:
        out.print(
            f"  {row.arena:,} bytes: {row.sqnr_db:.1f} dB predicted, {counted(len(row.tensors), 'tensor')} in int16"
        )


def say_formats(path: Path | None, made: Quantized) -> None:
    """How many tensors are of which type."""
    kinds = ", ".join(f"{count} {dtype}" for dtype, count in made.formats.items())
    if made.wide_weights:
        kinds += f"; weights of 16 bits in {counted(made.wide_weights, 'layer')}"
    console().print(f"{'' if path is None else plain(f'{path}: ')}tensors: {kinds}", soft_wrap=True)


def say_quality(made: Quantized) -> None:
    """Signal to noise, and how integers at the ends become values."""
    out = console()
    if made.sqnr_db is not None:
        said = f"signal to noise against the float network, on what it was calibrated with: {made.sqnr_db:.1f} dB"
        if made.predicted_sqnr_db is not None:
            said += f" (predicted {made.predicted_sqnr_db:.1f})"
        out.print(said)
    for line in _ends_said(made):
        out.print(plain(line))


def formats_facts(made: Quantized) -> dict[str, Any]:
    """Formats and quality, for --json."""
    return {
        "formats": dict(made.formats),
        "sqnr_db": made.sqnr_db,
        "predicted_sqnr_db": made.predicted_sqnr_db,
    }


def ends_facts(made: Quantized) -> dict[str, dict[str, dict[str, object]]]:
    """Inputs and outputs: type, and of integers scale and zero point."""
    told = made.ends.to_json()
    network = made.network
    types = {
        "inputs": {tensor.name: tensor.dtype for tensor in network.inputs},
        "outputs": {
            one.name: one.tensor.dtype for one in network.outputs if one.tensor is not None
        },
    }
    return {
        key: {name: told[key].get(name, {"type": dtype}) for name, dtype in found.items()}
        for key, found in types.items()
    }


def _ends_said(made: Quantized) -> Iterator[str]:
    """A line for each input and output that is integers."""
    for kind, ends in (("input", made.ends.inputs), ("output", made.ends.outputs)):
        for name, form in ends.items():
            assert form.scale is not None and form.zero_point is not None
            zero = form.zero_point[0]
            shifted = f"(integer {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "integer"
            yield f"{kind} {name}: {form.dtype}, value = {shifted} * {form.scale[0]:.9g}"


def _json(request: QuantizeRequest, made: Quantized) -> dict[str, Any]:
    return {
        "ok": True,
        "output": str(request.output),
        "format": request.wishes["format"],
        **formats_facts(made),
        **ends_facts(made),
        "figures": {
            **made.plan.figures,
            "float_arena": made.float_arena,
            **({} if made.int8_arena is None else {"int8_arena": made.int8_arena}),
        },
        "predicted_seconds": made.predicted_seconds,
        "device": made.device,
        **({"front": [_point(one) for one in made.front]} if made.front else {}),
    }


def _point(one: Chosen) -> dict[str, Any]:
    return {
        "arena": one.arena,
        "predicted_sqnr_db": one.sqnr_db,
        "int16": one.tensors,
        "int16_weights": one.weights,
    }


def _front_file(made: Quantized, suffix: str) -> bytes:
    """The front as a file: CSV with a line for each choice, or JSON with the names of tensors too."""
    if suffix == ".json":
        return (json.dumps([_point(one) for one in made.front], indent=2) + "\n").encode()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["arena_bytes", "predicted_sqnr_db", "int16_tensors"])
    writer.writerows([one.arena, f"{one.sqnr_db:.2f}", len(one.tensors)] for one in made.front)
    return text.getvalue().encode()
