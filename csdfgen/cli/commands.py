"""What is a command of ours, beside what typer makes of it? A default, near names, flags without types,
Ctrl-C.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["CHECKS", "Command", "Commands", "InterruptedByUserError", "RunCommand"]

DEFAULT_COMMAND = "convert"

_GROUP_OPTIONS = ("--help", "-h", "--version")

CHECKS = ("outputs", "layers")


class InterruptedByUserError(Exception):
    """Ctrl-C, kept from typer's own handling so that `main` can say it in a word, and with it what the
    command has to say.
    """


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters of a command, for its help: a flag takes no value, so that none is shown."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose flags stand in its help without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options and arguments, `--help` among them."""
        return _without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """A group with a default: `csdfgen model.onnx` is `csdfgen convert model.onnx`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options before any command."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command in front where the first argument names none."""
        first = args[0] if args else "--help"
        if not args:
            args = [first]
        elif first not in self.commands and first not in _GROUP_OPTIONS:
            self._check_model(ctx, first, args[1:])
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def _check_model(self, ctx: Any, first: str, rest: Sequence[str]) -> None:
        """Fail where the first argument can only be a command that does not exist: it is like one,
        or it is no file and its help is wanted.
        """
        if first.startswith(("-", "zoo:")) or os.path.exists(first):  # noqa: PTH110 (no error of its own)
            return
        near = difflib.get_close_matches(first, self.commands, 1)
        if near or not {"-h", "--help"}.isdisjoint(rest):
            hint = f"Did you mean '{near[0]}'?" if near else "csdfgen --help lists the commands."
            ctx.fail(f"'{first}' is neither a command nor a file. {hint}")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; typer would end silently on Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise InterruptedByUserError(*interrupt.args) from interrupt


class RunCommand(Command):
    """`run`, whose `--check` may stand alone or before the word `layers`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give every `--check` its value."""
        return super().parse_args(ctx, list(_with_check_values(args)))


def _with_check_values(args: Sequence[str]) -> Iterator[str]:
    """The arguments with `--check` and `--check layers` written as `--check=...`, those behind `--`
    left alone.
    """
    words = iter(zip_longest(args, args[1:], fillvalue=""))
    for word, following in words:
        if word == "--":
            yield word
            yield from (rest for rest, _ in words)
        elif word != "--check":
            yield word
        elif following in CHECKS:
            yield f"--check={following}"
            next(words)
        else:
            yield f"--check={CHECKS[0]}"
