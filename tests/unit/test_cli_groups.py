"""Options are declared once: typed ever after, in groups or alone, by commands, programs and sweeps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from csdfgen.cli.analyze import Analyze
from csdfgen.cli.command import Argument, Command, make_function
from csdfgen.cli.convert import Convert
from csdfgen.cli.options import Cut
from csdfgen.cli.run import Run
from csdfgen.cli.schedule import Schedule
from csdfgen.model.options import Option
from tests.command import Call, refused


@dataclass(frozen=True)
class Paint:
    colour: Annotated[str, Option("Its colour.", panel="Paint")] = "red"
    coats: Annotated[int, Option("How often.", "N", "Paint", low=1)] = 1


@dataclass(frozen=True, kw_only=True)
class Draw(Command):
    """Draw it."""

    name: Annotated[str, Argument("NAME")]
    paint: Paint
    loud: Annotated[bool, Option("Say so.")] = False

    def run(self) -> None:
        """Print what was typed."""
        print(self.name, self.paint.colour, self.paint.coats, self.loud)


def typed(*arguments: str) -> tuple[int, str]:
    commands = typer.Typer()
    commands.command()(make_function(Draw))
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
    assert list(signature(make_function(Draw)).parameters) == [
        "name",
        "colour",
        "coats",
        "loud",
        "help_all",
    ]


def test_an_option_belongs_to_one_group() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Twice(Draw):
        """Nothing."""

        colour: Annotated[str, Option("Again.")] = "blue"

    with pytest.raises(ValueError, match="duplicate parameter name: 'colour'"):
        make_function(Twice)


def test_commands_about_a_model_take_the_same_options() -> None:
    of_model = {one.name for one in fields(Cut)}  # type: ignore[arg-type]
    assert of_model == {"rows", "fuse", "image", "shape", "batch", "fix"}
    for command in (Convert, Schedule, Run, Analyze):
        assert of_model <= set(signature(make_function(command)).parameters)


def test_the_help_of_analyze_keeps_its_panels(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    said = call("analyze", "--help-all").out
    panels = ["Options", "Questions about dataflow", "Methods and limits", "Charts"]
    parts = [said.index(f"─ {panel} ─") for panel in panels]
    assert parts == sorted(parts)
    ends = [*parts[1:], len(said)]
    for place, names in enumerate(
        (
            "rows fuse image shape batch fix",
            "throughput buffers latency deadlock output",
            "engine sdf3 kiter timeout storage at-throughput unit seconds method capacities overlap tokens",
            "gantt occupancy dot draw",
        )
    ):
        for name in names.split():
            assert f"--{name} " in said[parts[place] : ends[place]], name


@pytest.mark.parametrize("choice", ["--goal", "--result", "--backend"])
def test_a_word_that_does_not_exist_is_refused_with_those_that_do(call: Call, choice: str) -> None:
    said = refused(call("run", "net.onnx", choice, "none"), code=2)
    assert f"invalid value for '{choice}': 'none' is not one of '" in said
