"""Groups of options: declared once, typed as ever, and put together for the command."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from csdfgen.cli.analyze_options import AnswerGroup, QuestionGroup
from csdfgen.cli.app import analyze, app, convert, run, schedule
from csdfgen.cli.groups import grouped
from csdfgen.cli.options import ModelGroup
from csdfgen.cli.picture_options import PictureGroup


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str, typer.Option("--colour", rich_help_panel="Paint")] = "red"
    coats: Annotated[int, typer.Option("--coats", min=1, rich_help_panel="Paint")] = 1


@dataclass(frozen=True)
class Again:
    colour: Annotated[str, typer.Option("--colour")] = "blue"


@grouped
def draw(name: str, *, paint: Paint, loud: bool = False) -> None:
    """Draw it."""
    print(name, paint.colour, paint.coats, loud)


def typed(*arguments: str) -> tuple[int, str]:
    commands = typer.Typer()
    commands.command()(draw)
    result = CliRunner().invoke(commands, arguments)
    return result.exit_code, result.output


def test_a_group_is_typed_as_its_options() -> None:
    assert typed("house") == (0, "house red 1 False\n")
    assert typed("house", "--coats", "3", "--loud") == (0, "house red 3 True\n")
    assert typed("house", "--colour", "green")[1] == "house green 1 False\n"
    assert typed("house", "--coats", "0")[0] == 2
    said = typed("--help")[1]
    assert "Draw it." in said and said.index("─ Options") < said.index("─ Paint")


def test_options_stand_where_their_group_does() -> None:
    assert list(signature(draw).parameters) == ["name", "colour", "coats", "loud"]


def test_an_option_belongs_to_one_group() -> None:
    def twice(*, paint: Paint, again: Again) -> None:
        """Nothing."""

    with pytest.raises(ValueError, match="duplicate parameter name: 'colour'"):
        grouped(twice)


def test_commands_about_a_model_take_the_same_options() -> None:
    of_model = set(ModelGroup.__dataclass_fields__)
    for command in (convert, schedule, run, analyze):
        assert of_model <= set(signature(command).parameters)


def test_the_help_of_analyze_keeps_its_panels() -> None:
    said = CliRunner().invoke(app, ["analyze", "--help"], env={"COLUMNS": "100"}).output
    panels = ["Options", "Questions about dataflow", "How they are answered", "Pictures"]
    parts = [said.index(f"─ {panel} ─") for panel in panels]
    assert parts == sorted(parts)
    ends = [*parts[1:], len(said)]
    for place, group in enumerate((ModelGroup, QuestionGroup, AnswerGroup, PictureGroup)):
        part = said[parts[place] : ends[place]]
        for name in group.__dataclass_fields__:
            assert f"--{name.replace('_', '-')} " in part, name
