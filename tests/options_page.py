"""The tables of docs/options.md: every option of every command, as the command line declares it. `python -m
tests.options_page` writes them into the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from typer.models import OptionInfo

from csdfgen.cli.command import application
from tests.documents import ROOT

PAGE = ROOT / "docs" / "options.md"
HEADING = "\n## "

SHARED = "Options of several commands"
"""The heading of options that have none and that several commands declare alike."""

PLANNING = ("convert", "schedule", "run", "report", "compile", "emit-c", "bundle")
"""Commands that plan a model; the page names them together."""


def _words(kind: Any) -> str:
    """The values of a type that lists them; "" for any other."""
    found = [kind, *get_args(kind)] if get_origin(kind) is not Literal else [kind]
    return "|".join(
        str(value) for one in found if get_origin(one) is Literal for value in get_args(one)
    )


def _row(kind: Any, declared: OptionInfo, default: object) -> tuple[str, str]:
    """An option with its value, and its help with the default, as Markdown."""
    flags = (declared.default, *(declared.param_decls or ()))  # typer has the first of them there
    names = ", ".join(f"`{flag}`" for flag in flags)
    value = "" if kind is bool else declared.metavar or _words(kind)
    text = (declared.help or "").replace("\\[", "[")
    if declared.show_default and default not in (inspect.Parameter.empty, None, False, (), [], ""):
        text += f" [default: {str(flags[0]).partition('/')[0] if default is True else default}]"
    if declared.min is not None and declared.max is not None:
        value += f" ({declared.min:,.15g} to {declared.max:,.15g})"
    return f"{names} {value}".strip().replace("|", "\\|"), text.replace("|", "\\|")


def options() -> Iterator[tuple[str, str, tuple[str, str]]]:
    """(command, heading or "", row) of every option."""
    for command in application("").registered_commands:
        assert command.callback is not None
        for one in inspect.signature(command.callback).parameters.values():
            kind, declared = get_args(one.annotation)
            if isinstance(declared, OptionInfo):
                heading = declared.rich_help_panel
                yield (
                    str(command.name),
                    heading if isinstance(heading, str) else "",
                    _row(kind, declared, one.default),
                )


def tables() -> str:
    """A table for each heading of the help, and for each command's own options; commands that declare an option
    alike share a row.
    """
    commands: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for command, heading, row in options():
        commands.setdefault((heading, row), []).append(command)
    shared: dict[str, list[tuple[str, str, str]]] = {SHARED: []}
    own: dict[str, list[tuple[str, str, str]]] = {}
    for (heading, (name, text)), names in commands.items():
        users = _users(names)
        if heading or len(names) > 1:
            shared.setdefault(heading or SHARED, []).append((name, users, text))
        else:
            own.setdefault(f"`csdfgen {names[0]}`", []).append((name, users, text))
    return "".join(_table(heading, rows) for heading, rows in (shared | own).items())


def _table(heading: str, rows: Sequence[tuple[str, str, str]]) -> str:
    """Options below a heading; the heading names the commands if all take the same."""
    if len(users := {users for _, users, _ in rows}) > 1:
        lines = ["| option | commands | meaning |", "|---|---|---|", *map(_line, rows)]
    else:
        lines = ["| option | meaning |", "|---|---|", *(_line((one[0], one[2])) for one in rows)]
        heading += "" if heading.startswith("`") else f": {users.pop()}"
    return f"{HEADING}{heading}\n\n" + "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _users(names: Sequence[str]) -> str:
    """The commands that take an option, as short as can be."""
    every = [str(one.name) for one in application("").registered_commands]
    left = [f"`{one}`" for one in every if one not in names]
    together = set(PLANNING) <= set(names)
    others = [f"`{one}`" for one in names if not (together and one in PLANNING)]
    listed = ["planning"] * together + others
    if len(left) < len(listed):
        return f"all but {', '.join(left)}" if left else "all"
    return ", ".join(listed)


def whole_page() -> str:
    """The page with the options of today."""
    return PAGE.read_text().partition(HEADING)[0] + tables()


if __name__ == "__main__":
    PAGE.write_text(whole_page())
