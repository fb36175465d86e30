"""The command line: what does a user type, and what comes back when something is wrong?

Every command loads, calls one function and saves. Results go to stdout or to the file of
`-o`; stderr is for what went wrong, in one line. Exit codes: 0 done, 1 an error of model, file
or plan, 2 wrong usage, 130 interrupted, 141 the reader of the output went away (as the shell has it
of SIGPIPE), which is no error and says nothing.

Importing this module is cheap; a command loads what it needs when it runs.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence

from csdfgen.errors import CsdfgenError, name_options_as_flags

__all__ = ["main"]

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by BLAS when numpy is first imported; every thread that it starts reserves address space."""

_INTERRUPTED = 130
_NO_READER = 141

_LONGEST_LINE = 4000
"""Characters of an error; lists of unknown operators are printed whole, names of megabytes are cut."""


class _WarningList(logging.Handler):
    """Keeps what our modules warn about until the command has ended; an error is printed alone."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class _Waits(logging.Handler):
    """Says at once that a long wait begins, where no progress bar shows it (`terminal.show_progress`)."""

    def emit(self, record: logging.LogRecord) -> None:
        if not vars(record).get("done"):
            _complain(record.getMessage())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with `sys.argv` or the given arguments; returns the exit code."""
    for name in _THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    for name in ("stdout", "stderr"):
        if (
            getattr(sys, name) is None
        ):  # closed before Python started: what is printed is lost, no more
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names in a model may hold anything
    kept, waits, said = _WarningList(), logging.getLogger("csdfgen.waits"), _Waits()
    logging.getLogger().addHandler(kept)
    waits.addHandler(said)
    waits.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(), name_options_as_flags():
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            code = _run(sys.argv[1:] if arguments is None else list(arguments))
    finally:
        logging.getLogger().removeHandler(kept)
        waits.removeHandler(said)
    if code == 0:
        for line in dict.fromkeys(kept.lines):  # a file that is read twice warns once
            _complain(f"warning: {line}")
    if arguments is None:  # the process ends, with this code whatever is typed until it has
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _run(arguments: list[str]) -> int:
    """The exit code of a command; whatever escapes from it becomes one line on stderr."""
    try:
        return _ended(arguments)
    except CsdfgenError as error:
        return _complain(str(error))
    except KeyboardInterrupt as interrupt:
        return _complain(": ".join(["interrupted", *map(str, interrupt.args)]), _INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has gone; nothing is left to say
        _discard_output()
        return _NO_READER
    except MemoryError as error:
        return _complain(f"not enough memory: {error or 'an allocation failed'}")
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _discard_output()
            return _complain(f"the output cannot be written: {error.strerror}")
        if os.environ.get("CSDFGEN_DEBUG"):
            traceback.print_exc()
        if isinstance(error, OSError) and error.filename:  # such as a name that is too long
            return _complain(f"{error.filename}: {error.strerror}")
        return _complain(
            f"internal error: {type(error).__name__}: {error}; please report it with the input (CSDFGEN_DEBUG=1 shows where)"
        )


def _ended(arguments: list[str]) -> int:
    """The exit code that a command ends with by itself, once all that it printed is written."""
    from csdfgen.cli.command import COMMANDS, InterruptedByUserError, UsageError, application

    command = application(arguments[0] if arguments else "")
    try:
        code = command(arguments, prog_name="csdfgen", standalone_mode=False) or 0
    except UsageError as error:
        named = [one for one in arguments[:1] if one in COMMANDS]  # parsers of options know no more
        where = error.ctx.command_path if error.ctx else " ".join(("csdfgen", *named))
        said = error.format_message().rstrip(".")
        code = _complain(f"{where}: {said[:1].lower()}{said[1:]}; see {where} --help", 2)
    except InterruptedByUserError as interrupt:
        raise KeyboardInterrupt(*interrupt.args) from None
    except SystemExit as end:
        if _is_of_a_broken_pipe(end):
            raise BrokenPipeError from end
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if code == _INTERRUPTED:  # typer ends silently on Ctrl-C while it reads the arguments
        raise KeyboardInterrupt from None
    sys.stdout.flush()
    return code


def _is_of_a_broken_pipe(end: BaseException) -> bool:
    """Whether that is why it ends: rich and typer make an exit with code 1 of it."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, BrokenPipeError):
        cause = cause.__context__
    return cause is not None


def _discard_output() -> None:
    """Nothing more reaches stdout, not even when Python flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int = 1) -> int:
    """The exit code, and one line on stderr, without characters that would move a terminal's cursor; cut in the
    middle where a name is endless.
    """
    line = " ".join(message.split())
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"
    shown = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
    print("".join(shown), file=sys.stderr)
    return code
