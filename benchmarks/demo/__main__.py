"""`python -m benchmarks.demo --out out`: CenterFace on a photograph at two sizes; a table, a picture,
a graph.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.demo import centerface, pictures
from csdfgen.errors import CsdfgenError
from csdfgen.pages.measured import Measured, measure_frame
from csdfgen.planning.plan import Plan
from runtime.reference import MismatchError

MIB = 2**20


@dataclass(frozen=True)
class Shown:
    """One picture, what was found on it, and what that took."""

    picture: np.ndarray
    plan: Plan
    comparison: Measured
    faces: list[centerface.Face]

    @property
    def whole(self) -> int:
        """Bytes that whole layers need: onnxruntime's as measured, or else as modelled."""
        return self.comparison.their_bytes or self.plan.figures["whole_layer_live"]

    @property
    def slabs(self) -> int:
        """Bytes of the arena, workspace included, and of the outputs."""
        return self.plan.planned_bytes + self.plan.figures["outputs"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all outputs are onnxruntime's and every face is found in both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for the picture and the graph"
    )
    parser.add_argument("--rows", default="auto", help="rows a phase: a number, auto or whole")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        return _show(console, options.out, options.rows)
    except CsdfgenError as error:
        print(error, file=sys.stderr)
        return 1


def _show(console: Console, out: Path, rows: str) -> int:
    out.mkdir(parents=True, exist_ok=True)
    photograph = pictures.photograph()
    shown = []
    for picture in (photograph, pictures.mosaic(photograph)):
        height, width = picture.shape[:2]
        with console.status(
            f"CenterFace at {height}x{width}: convert, schedule, run in slabs of rows, compare with onnxruntime"
        ):
            shown.append(_detect(picture, rows))
    console.print(_table(shown))
    _draw(shown[-1], out / "faces.png")
    for path in _write_graph(shown[0].plan, rows, out):
        console.print(f"{path}: the CSDF graph at {_size(shown[0])}", highlight=False)
    console.print(f"{out / 'faces.png'}: the faces that were found", highlight=False)
    return 0 if all(s.comparison.equal for s in shown) else 1


def _detect(picture: np.ndarray, rows: str) -> Shown:
    import csdfgen

    path = centerface.model_file()
    image = centerface.prepare_picture(picture)
    plan = csdfgen.plan(csdfgen.load(path, shapes={centerface.INPUT: image.shape}), rows=rows)
    comparison = measure_frame(plan, str(path), {centerface.INPUT: image}, repeat=3)
    if comparison.refused:
        raise MismatchError(f"onnxruntime did not run: {comparison.refused}")
    faces = centerface.faces(comparison.outputs)
    wanted = centerface.faces(comparison.reference)
    if len(faces) != len(wanted):
        raise MismatchError(f"{len(faces)} faces found, {len(wanted)} with onnxruntime")
    return Shown(picture, plan, comparison, faces)


def _outputs_in(plan: Plan) -> int:
    """Bytes of the outputs that are stored in the arena."""
    return plan.network.output_bytes - plan.figures["outputs"]


def _size(shown: Shown) -> str:
    return "x".join(str(n) for n in shown.picture.shape[:2])


def _mib(count: float) -> str:
    return f"{count / MIB:.2f} MiB"


def _table(shown: Sequence[Shown]) -> Table:
    """Memory, time and result at every size; every row states the origin of its figure."""
    table = Table(
        title="CenterFace, 60 convolutions: one frame, one thread",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("origin", style="dim")
    for s in shown:
        table.add_column(_size(s), justify="right")
    weights = shown[0].plan.figures["parameters"]
    table.caption = (
        f"MiB = 2^20 bytes. Weights ({_mib(weights)}) are counted on neither side.\n"
        f"{platform.machine()}, numpy {np.__version__}"
    )
    for section in _lines(shown):
        for label, origin, cells in section:
            table.add_row(label, origin, *cells)
        table.add_section()
    return table


def _lines(shown: Sequence[Shown]) -> list[list[tuple[str, str, list[str]]]]:
    runs = [s.comparison for s in shown]

    def figure(name: str) -> list[str]:
        return [_mib(s.plan.figures[name]) for s in shown]

    return [
        [
            (
                "onnxruntime, memory of a frame",
                "measured",
                [_mib(c.their_bytes) if c.their_bytes else "not on this system" for c in runs],
            ),
            ("all tensors, no sharing", "modelled", figure("sum_of_tensors")),
            ("whole layers, dead tensors freed", "modelled", figure("whole_layer_live")),
        ],
        [
            ("csdfgen, peak of live bytes", "planned", figure("peak_live")),
            ("csdfgen, the arena", "planned", figure("arena")),
            ("  of which written in a frame", "measured", [_mib(c.touched) for c in runs]),
            ("  of which workspace at most", "planned", figure("workspace")),
            (
                "  of which outputs, at the end",
                "planned",
                [_mib(_outputs_in(s.plan)) for s in shown],
            ),
            ("csdfgen, outputs outside it", "planned", figure("outputs")),
            (
                "[bold]less memory by a factor of[/bold]",
                "",
                [f"[bold green]{s.whole / s.slabs:.1f}[/bold green]" for s in shown],
            ),
        ],
        [
            (
                "onnxruntime, time of a frame",
                "measured",
                [f"{(c.theirs or 0) * 1e3:.0f} ms" for c in runs],
            ),
            ("csdfgen, time of a frame", "measured", [f"{c.ours * 1e3:.0f} ms" for c in runs]),
        ],
        [
            ("firings", "", [str(len(s.plan.order)) for s in shown]),
            (
                "largest difference of any output",
                "measured",
                [f"{c.max_abs_error:.1e}" for c in runs],
            ),
            (
                "outputs equal to onnxruntime's",
                "",
                ["yes" if c.equal else "[bold red]NO[/bold red]" for c in runs],
            ),
            ("faces found, by both", "", [str(len(s.faces)) for s in shown]),
        ],
    ]


def _draw(shown: Shown, path: Path) -> None:
    whole = "onnxruntime, measured" if shown.comparison.their_bytes else "whole layers, modelled"
    bars = (
        (whole, shown.whole / MIB, "#ff6b6b"),
        ("csdfgen, the arena", shown.slabs / MIB, pictures.MARK),
    )
    title = f"CenterFace at {_size(shown)}: {len(shown.faces)} faces, the same with both. Memory of a frame:"
    note = f"largest difference of any output value: {shown.comparison.max_abs_error:.1e}"
    pictures.save(pictures.draw_faces(shown.picture, shown.faces, title, bars, note), path)


def _write_graph(plan: Plan, rows: str, out: Path) -> tuple[Path, ...]:
    from csdfgen.dataflow.graph_json import write_graph
    from csdfgen.phases.conversion import convert, csdf_graph
    from sdf3_bridge import sdf3xml

    # at the heights as asked for: layers that the plan makes taller would fire at other rates
    graph = csdf_graph(convert(plan.network, rows))
    xml, ours = out / "centerface.xml", out / "centerface.json"
    sdf3xml.write(xml, graph)
    write_graph(ours, graph)
    return xml, ours


if __name__ == "__main__":
    sys.exit(main())
