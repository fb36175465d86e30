"""How does something new get a name that nothing has?"""

from __future__ import annotations

from collections.abc import Collection


def make_unused_name(name: str, taken: set[str], mark: str = "_") -> str:
    """The name, with marks if it is taken; it is taken then.

    >>> make_unused_name("x", {"x", "x_"})
    'x__'
    """
    while name in taken:
        name += mark
    taken.add(name)
    return name


def number_unused_name(name: str, taken: set[str], others: Collection[str] = ()) -> str:
    """The name, with a number if it is taken or among others; it is taken then.

    >>> number_unused_name("x", {"x", "x_2"})
    'x_3'
    """
    found, count = name, 1
    while found in taken or found in others:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found
