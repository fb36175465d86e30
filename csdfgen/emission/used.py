"""What do the steps of a network have in common? Compilers leave out of kernels what none of them takes.

Kernels ask by `CSDF_MAY` and `CSDF_MOST` for the values of fields; `used.h` of a network answers from its instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import Any

from csdfgen.backends.native.structures import get_record
from csdfgen.lowering.program import Program
from csdfgen.program.instructions import RECORDS, Constants, Ref, find_kernel

_ASKED = re.compile(r"CSDF_(?:MAY|MOST|MULTIPLE)\((\w+__\w+)")
_HEAD = """/* What the steps of this network have in common: by it, compilers leave out what none of them takes.
 *
 * CSDF_VALUES: bit k where a field has the value k in some step, or, of a pointer, where it is NULL (0) and where it is not. */
#ifndef CSDF_USED_H
#define CSDF_USED_H

#define CSDF_MAY(field, value) ((int)(CSDF_VALUES_##field >> (value)) & 1)
#define CSDF_MOST(field) CSDF_MOST_##field
#define CSDF_MULTIPLE(field, number) (CSDF_FACTOR_##field % (number) == 0)
"""


def list_used(
    texts: Iterable[str], programs: Sequence[Program], shared: Iterable[str]
) -> Iterator[str]:
    """The lines of used.h. texts: of the kernels. shared: functions that kernels call, with steps of their own."""
    yield from _HEAD.splitlines()
    yield ""
    for field in sorted({field for text in texts for field in _ASKED.findall(text)}):
        kernel, *names = field.split("__")
        bits, most, factor = 0xFFFFFFFF, 2**31 - 1, 1
        if f"csdf_{kernel}" not in shared:
            found = set(_list_values(kernel, names, programs))
            bits, most = sum({1 << min(value, 31) for value in found}), max(found, default=0)
            factor = gcd(*found)
        yield f"#define CSDF_VALUES_{field} 0x{bits:x}u"
        yield f"#define CSDF_MOST_{field} {most}"
        yield f"#define CSDF_FACTOR_{field} {factor}"
    yield from ("", "#endif")


def _list_values(kernel: str, names: Sequence[str], programs: Sequence[Program]) -> Iterator[int]:
    """The values of a field in all steps of a kernel."""
    for program in programs:
        for one in program.instructions:
            if one.kernel in (kernel, f"{kernel}_of"):
                yield from _walk(get_record(one), names, program.constants)
        for record in program.constants.tables.get(RECORDS, ()):
            if record is not None and find_kernel(record.kernel) in (kernel, f"{kernel}_of"):
                yield from _walk(record.step, names, program.constants)


def _walk(value: Any, names: Sequence[str], constants: Constants) -> Iterator[int]:
    """The values of a field below a record or a table of records."""
    if not names:
        yield int(value is not None) if value is None or isinstance(value, Ref) else int(value)
    elif value is not None:
        for row in constants.rows_of(value) if type(value) is Ref else (value,):
            yield from _walk(getattr(row, names[0]), names[1:], constants)
