"""`csdfgen doctor`: the diagnosis as a table; exit 1 if there is trouble."""

from __future__ import annotations

from rich.text import Text

from csdfgen.cli.diagnosis import diagnose
from csdfgen.cli.terminal import console, counted, table
from csdfgen.errors import ToolError

__all__ = ["run_doctor"]


def run_doctor() -> None:
    """Print what was found. Raises ToolError with the first trouble, if any."""
    findings = diagnose()
    rows = table("what", "found", "")
    for finding in findings:
        said = finding.trouble or ("not needed" if finding.absent else "ok")
        style = "red" if finding.trouble else "dim" if finding.absent else "green"
        rows.add_row(finding.what, finding.value, Text(said, style=style))
    console().print(rows)
    troubles = [finding for finding in findings if finding.trouble]
    if troubles:
        raise ToolError(
            f"{counted(len(troubles), 'trouble')}; {troubles[0].trouble}", where=troubles[0].what
        )
