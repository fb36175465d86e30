"""`csdfgen analyze`: what does a model or a graph need, and how fast is it? One section a question,
each asked by an option.

Every section is made by a function that knows its question: its JSON values, and how it is printed.
What is asked about memory and devices is for models (`analyze_device`), what is asked about
dataflow for graphs, and for models by way of their graph (`analyze_graph`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from csdfgen.cli.options import is_graph_file
from csdfgen.cli.sections import AnalyzeRequest, Report, Section
from csdfgen.cli.terminal import Stage, console, stages
from csdfgen.errors import InputError
from csdfgen.files import write_bytes

__all__ = ["run_analyze"]


def run_analyze(request: AnalyzeRequest) -> None:
    """Answer what was asked about a model or a graph. Raises CsdfgenError."""
    if request.csv is not None and request.device is None:
        raise InputError(
            "--csv writes the layers' times; give --device NAME (csdfgen devices lists them)"
        )
    output = request.questions.output
    if output is not None and output.suffix.lower() != ".json":
        raise InputError("a schedule with its buffers is written as .json", where=str(output))
    with stages() as stage:
        report = _report(request, stage)
    if request.csv is not None:
        _write_csv(request.csv, report.sections)
    if request.as_json:
        values = dict(report.head)
        for section in report.sections:
            values.update(section.to_json())
        print(json.dumps(values, indent=2, allow_nan=False))
        return
    console().print(f"{report.title}\n")
    for section in report.sections:
        section.show()


def _report(request: AnalyzeRequest, stage: Stage) -> Report:
    if is_graph_file(request.model):
        from csdfgen.cli.analyze_graph import about_graph

        return about_graph(request, stage)
    from csdfgen.cli.analyze_model import about_model

    return about_model(request, stage)


def _write_csv(path: Path, sections: Sequence[Section]) -> None:
    from csdfgen.cli.analyze_device import COLUMNS

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for section in sections:
        writer.writerows(section.rows)
    write_bytes(path, text.getvalue().encode("utf-8", "backslashreplace"))
