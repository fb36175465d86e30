"""`csdfgen quantize`: a float model in fewer bytes, and what that does to memory and quality."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from csdfgen.cli.models import load_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import console, counted, plain, stages, table
from csdfgen.errors import InputError
from csdfgen.files import check_writable, write_bytes
from csdfgen.precision.choice import Chosen
from csdfgen.precision.quantize import Quantized, quantize
from runtime.images import ImageOptions, read_frames

__all__ = ["QuantizeRequest", "run_quantize"]


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
        stage("loading")
        network = load_network(request.model, request.options)
        frames = read_frames(request.calibrate, network, request.images)
        made = quantize(
            request.model,
            frames or None,
            with_front=request.front is not None,
            shapes=request.options.shapes or None,
            progress=stage,
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
    kinds = ", ".join(f"{count} {dtype}" for dtype, count in made.formats.items())
    out.print(f"{plain(str(request.output))}: tensors: {kinds}")
    arena = made.plan.figures["arena"]
    shown = table("arena of the default plan", "bytes", "of float", right=("bytes", "of float"))
    shown.add_row("float", f"{made.float_arena:,}", "1.000")
    if made.int8_arena is not None:
        shown.add_row("int8", f"{made.int8_arena:,}", f"{made.int8_arena / made.float_arena:.3f}")
    shown.add_row(request.wishes["format"], f"{arena:,}", f"{arena / made.float_arena:.3f}")
    out.print(shown)
    if made.sqnr_db is not None:
        said = f"signal to noise against the float network, on what it was calibrated with: {made.sqnr_db:.1f} dB"
        if made.predicted_sqnr_db is not None:
            said += f" (predicted {made.predicted_sqnr_db:.1f})"
        out.print(said)
    for row in made.front:
        out.print(
            f"  {row.arena:,} bytes: {row.sqnr_db:.1f} dB predicted, {counted(len(row.wide), 'tensor')} in int16"
        )


def _json(request: QuantizeRequest, made: Quantized) -> dict[str, Any]:
    return {
        "ok": True,
        "output": str(request.output),
        "format": request.wishes["format"],
        "formats": dict(made.formats),
        "figures": {
            **made.plan.figures,
            "float_arena": made.float_arena,
            **({} if made.int8_arena is None else {"int8_arena": made.int8_arena}),
        },
        "sqnr_db": made.sqnr_db,
        "predicted_sqnr_db": made.predicted_sqnr_db,
        **({"front": [_point(one) for one in made.front]} if made.front else {}),
    }


def _point(one: Chosen) -> dict[str, Any]:
    return {"arena": one.arena, "predicted_sqnr_db": one.sqnr_db, "int16": sorted(one.wide)}


def _front_file(made: Quantized, suffix: str) -> bytes:
    """The front as a file: CSV with a line for each choice, or JSON with the names of tensors too."""
    if suffix == ".json":
        return (json.dumps([_point(one) for one in made.front], indent=2) + "\n").encode()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["arena_bytes", "predicted_sqnr_db", "int16_tensors"])
    writer.writerows([one.arena, f"{one.sqnr_db:.2f}", len(one.wide)] for one in made.front)
    return text.getvalue().encode()
