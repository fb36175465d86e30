"""What is a command? A frozen dataclass: its fields are its arguments and options, `run` does the work.

A field is declared (`argument`, `model.options.declare`), or is a dataclass of options that several commands
take; its flag is its name. Typer gets a function with one parameter for each of them.
"""

from __future__ import annotations

import difflib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from csdfgen import __version__
from csdfgen.errors import InputError, option
from csdfgen.model.options import OPTIONS, Option

DEFAULT_COMMAND = "convert"

_GROUP_OPTIONS = ("--help", "-h", "--version", "--install-completion", "--show-completion")

_FIRST_CLAUSE = re.compile(r"^(.{12,}?[\w)])[.;:](?:\s.*)?$", re.DOTALL)
_MOST_LISTED = 20
"""Options of a command that are all in its help, in full; of more, those are left to --help-all that few users need:"""

_USUAL = frozenset(
    [
        "backend", "batch", "device", "fix", "goal", "latency", "memory", "requests", "rows", "shape", "threads",
    ]
)  # fmt: skip
_PLANNING = frozenset({*OPTIONS, "budgets", "of", "requests"})
_RARE = (_PLANNING - _USUAL) | {
    *["integer_io", "items", "labels", "layout", "mean", "offsets", "precision", "std", "trace"]
}


UsageError: Any = typer.BadParameter.__base__  # of the click that typer has in it, or needs


class InterruptedByUserError(Exception):
    """Ctrl-C, kept from typer's own handling so that `main` can say it in a word, and with it what the
    command has to say.
    """


@dataclass(frozen=True, slots=True)
class Argument:
    """What is declared of an argument. metavar: how help shows it. models: it may be several models, which are one then."""

    metavar: str
    help: str = ""
    models: bool = False


def argument(metavar: str, help: str = "", default: Any = ..., models: bool = False) -> Any:
    """A field of a command that is an argument, required without a default."""
    metadata = {"option": Argument(metavar, help, models)}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Base of all commands. examples: command lines, for the help."""

    examples: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def run(self) -> None:
        """Do it. Raises CsdfgenError, which is one line on stderr and exit code 1."""

    @staticmethod
    def spelled(arguments: list[str]) -> list[str]:
        """The arguments as typer reads them."""
        return arguments


def make_function(command: type[Command]) -> Callable[..., None]:
    """A function that makes and runs a command, with a parameter for each of its options."""

    def function(**given: Any) -> None:
        try:
            if isinstance(given.get("model"), list | tuple):
                shared = ("rates", "after", "connect") if "connect" in given else ()
                options = {name: given[name] for name in shared}
                given["model"] = _join_models(given["model"], options)
            _made(command, given).run()
        except KeyboardInterrupt as interrupt:  # typer would end silently
            raise InterruptedByUserError(*interrupt.args) from interrupt

    parameters = list(_parameters(command))
    kind: Any = Annotated[bool, _HELP_ALL]
    parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=kind))
    # the terminal breaks lines, not the source: typer would break them at both
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    function.__doc__ = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    return function


def _join_models(models: Sequence[str], options: dict[str, Any]) -> str:
    """The name of the one model that several are. Raises InputError."""
    if len(models) > 1:
        from csdfgen.model.several import list_networks

        return str(list_networks(models, **options))
    for name, value in options.items():
        if value:
            raise InputError(f"{option(name, value)} is for several models; name two or more")
    return models[0]


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.params["help_all"] = True
        print(ctx.get_help(), end="")
        raise typer.Exit


_HELP_ALL = typer.Option(
    "--help-all", callback=_show_all, is_eager=True, help="Show all options with their full help."
)


def _made(owner: Any, given: dict[str, Any]) -> Any:
    """A command or a group of options, of what was typed."""
    hints: dict[str, Any] = get_type_hints(owner)
    groups = {one.name: hints[one.name] for one in fields(owner) if is_dataclass(hints[one.name])}
    made = {name: _made(group, given) for name, group in groups.items()}
    return owner(**{one.name: made.get(one.name, given.get(one.name)) for one in fields(owner)})


def _parameters(owner: Any) -> Iterator[Parameter]:
    """The fields of a command or of a group of options. Raises ValueError for a name that is there twice."""
    hints = get_type_hints(owner, include_extras=True)
    for one in fields(owner):
        kind: Any = hints[one.name]
        if is_dataclass(kind):
            yield from _parameters(kind)
            continue
        declared = one.metadata.get("option")
        if declared is None:
            kind, declared = get_args(kind)
        if isinstance(declared, Argument) and declared.models:
            kind = list[str]
        hint: Any = Annotated[kind, _of_typer(one.name, kind, declared)]
        default = Parameter.empty if one.default is MISSING else one.default
        yield Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _of_typer(name: str, kind: Any, declared: Option | Argument) -> Any:
    """A declaration as typer has it."""
    text = declared.help.replace("[", "\\[")
    if isinstance(declared, Argument):
        return typer.Argument(metavar=declared.metavar, help=text, show_default=False)
    names = declared.names or (f"--{name.replace('_', '-')}",)
    of_texts = str in (kind, *get_args(kind))  # which are numbers when they are read
    return typer.Option(
        *names,
        metavar=declared.metavar or None,
        help=f"{text} \\[default: {declared.shown}]" if declared.shown else text,
        show_default=not declared.shown,
        min=None if of_texts else declared.low,
        max=None if of_texts else declared.high,
        rich_help_panel=declared.panel,
    )


# What typer makes of it -------------------------------------------------------------------------


COMMANDS = (
    "convert", "schedule", "run", "report", "compile", "emit-c", "bundle", "compare", "reproduce", "analyze", "sweep", "devices",
    "profile", "tune", "simulate", "serve", "bench-serve", "zoo", "quantize", "operators", "cache", "doctor",
)  # fmt: skip
"""In the order of the help; each is the `Command` of the module of its name."""


def application(first: str) -> typer.Typer:
    """All commands; where the first argument names one, or a model, only that, so that no other is imported."""
    app = typer.Typer(
        cls=Commands,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Run convolutional networks in a fraction of their activation memory.\n\n"
        "An ONNX model becomes a cyclo-static dataflow graph whose actors process slabs of rows; csdfgen finds a "
        "firing order and buffers, exports the graph, runs it in those buffers, and compares with onnxruntime.",
        epilog="Without a command, [bold]csdfgen MODEL -o graph.xml[/bold] converts a model. [bold]csdfgen COMMAND --help[/bold] "
        "shows a command's options and examples.",
    )
    app.callback()(_options)
    others = COMMANDS if first in ("", *_GROUP_OPTIONS) else (DEFAULT_COMMAND,)
    for name in (first,) if first in COMMANDS else others:
        module = import_module(f"csdfgen.cli.{name.replace('-', '_')}")
        kinds = (one for one in vars(module).values() if isinstance(one, type))
        command = next(
            one for one in kinds if issubclass(one, Command) and one.__module__ == module.__name__
        )
        examples = "\n\n".join(["Examples:", *(f"  {line}" for line in command.examples)])
        function = make_function(command)
        known = {"spelled": command.spelled, "texts": _texts(function)}
        app.command(
            name,
            cls=type(command.__name__, (TypedCommand,), known),
            epilog=examples.replace("[", "\\[") if command.examples else None,
        )(function)
    return app


def _texts(function: Callable[..., None]) -> Collection[str]:
    """The parameters that are texts."""
    parameters = signature(function).parameters.values()
    texts = str, str | None, list[str]
    return {one.name for one in parameters if get_args(one.annotation)[0] in texts}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"csdfgen {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")


def _options(version: Annotated[bool, _VERSION] = False) -> None:
    """Options before any command; all are eager, so nothing is left to do."""


class _WithoutTypes:
    """A flag takes no value, so that help shows no type of it. texts: names of arguments that are taken as they are typed."""

    texts: ClassVar[Collection[str]] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Options and arguments, `--help` among them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            if "process_value" not in vars(param):
                param.process_value = partial(_processed, param, param.process_value, self.texts)
        return params


def _processed(
    param: Any, process: Callable[[Any, Any], Any], texts: Collection[str], ctx: Any, value: Any
) -> Any:
    """A value as typer makes it; what needs no conversion is left as it is, so that the library that converts, whose import
    takes longer than a small network, is loaded only where it is needed.
    """
    missing = value is None
    declared = value is param.default and type(value) in (bool, float, int, str)
    text = param.name in texts and (type(value) is str or (value and isinstance(value, tuple)))
    if (missing and param.required) or not (missing or declared or text):
        return process(ctx, value)
    if missing and (getattr(param, "multiple", False) or param.nargs == -1):
        value = ()
    return value if param.callback is None else param.callback(ctx, param, value)


class TypedCommand(_WithoutTypes, TyperCommand):
    """A command, as `Command` declares it."""

    spelled: ClassVar[Callable[[list[str]], list[str]]]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: of many options the usual ones, each with its first clause."""
        params = self.get_params(ctx)
        if len(params) > _MOST_LISTED and not ctx.params.get("help_all"):
            for param in params:
                param.hidden = param.hidden or param.name in _RARE
                param.help = _FIRST_CLAUSE.sub(r"\1", param.help or "")
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, type(self).spelled(args))
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of typer's own library
            raise


class Commands(_WithoutTypes, TyperGroup):
    """A group with a default: `csdfgen model.onnx` is `csdfgen convert model.onnx`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command in front where the first argument names none. Fail where it can only be a
        command that does not exist: it is like one, or it is no file and its help is wanted.
        """
        first, *rest = args or ["--help"]
        if first in COMMANDS or first in _GROUP_OPTIONS:
            return super().parse_args(ctx, [first, *rest])
        if not first.startswith(("-", "zoo:")) and not os.path.exists(first):  # noqa: PTH110 (no error of its own)
            near = difflib.get_close_matches(first, COMMANDS, 1)
            if near or not {"-h", "--help"}.isdisjoint(rest):
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                ctx.fail(f"'{first}' is neither a command nor a file{hint}")
        return super().parse_args(ctx, [DEFAULT_COMMAND, first, *rest])
