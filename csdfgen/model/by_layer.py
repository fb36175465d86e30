"""Options with a value for each layer: a number or a word for all layers, and other values for layers by name, as a text
such as "1,conv1=4,image=24+8" or as a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import index
from types import MappingProxyType
from typing import Any, ClassVar

from csdfgen.errors import InputError, option
from csdfgen.files import quote
from csdfgen.model.frozen import Pickled

ALL_LAYERS = "*"
"""The name that stands for all other layers in a mapping."""

Asked = int | str | tuple[int, ...]
"""The value for a layer: a number, a word, or a sequence of numbers, the last of which is repeated."""

ByLayer = int | str | Mapping[str, int | str | Sequence[int]]
"""The types that `Wording.read` takes."""

Layers = Mapping[str, Asked]

_ITEMS = re.compile(r"(?:^|,)((?:\\[\\,]|[^,])*)")
"""Items between commas; a comma after a backslash is part of a name."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|([\\,]))")


@dataclass(frozen=True, slots=True)
class Wording:
    """An option with a value for each layer. unit: of the numbers. words: the values that are no numbers. general: the value
    for layers without their own.
    """

    option: str
    unit: str
    words: tuple[str, ...]
    general: int | str

    def read(self, given: ByLayer | Spec) -> tuple[int | str, Layers]:
        """(value for all layers, values by layer). Raises InputError."""
        if isinstance(given, Spec):  # its values have not been checked
            return self.asked(given.general, given.general), self.of_mapping(given.layers)[1]
        if isinstance(given, Mapping):
            return self.of_mapping(given)
        if isinstance(given, str):
            return self._of_text(given.strip())
        return self.asked(given, given), MappingProxyType({})

    def written(self, general: int | str, layers: Layers) -> str:
        """The text from which `read` returns these values."""
        each = (f"{_escaped(name)}={_written(value)}" for name, value in sorted(layers.items()))
        return ",".join([str(general), *each])

    def text(self, given: ByLayer | Spec) -> str:
        """The given values as a text. Raises InputError.

        >>> ROWS.text({"conv1": 4, "*": 2})
        '2,conv1=4'
        """
        return self.written(*self.read(given))

    def check_names(self, layers: Iterable[str], known: Sequence[str]) -> None:
        """Raises InputError for a name that is not among the known ones, of which there is at least one."""
        unknown = sorted(set(layers) - set(known))
        if unknown:
            near = get_close_matches(unknown[0], known, 3) or known[:3]
            raise InputError(
                f"{option(self.option)} names '{unknown[0]}', which is no layer at this {option('fuse')} level; "
                f"{len(known)} layers are known, such as {', '.join(near)}"
            )

    def asked(self, value: Any, whole: object) -> int | str:
        """A number or word given by a program. Raises InputError, which shows `whole`."""
        try:
            if isinstance(value, bool):
                raise TypeError("no number, though Python counts with it")
            text = value.strip() if isinstance(value, str) else str(index(value))
        except TypeError:
            raise InputError(
                f"{option(self.option, whole)}: {quote(value)} is not {self._wanted}; or give a mapping from "
                "layers to these"
            ) from None
        return self._number(text, whole)

    def of_mapping(
        self, given: Mapping[str, int | str | Sequence[int]]
    ) -> tuple[int | str, Layers]:
        """As `read`, for a mapping."""
        layers: dict[str, Asked] = {}
        for name, value in given.items():
            whole = {name: value}  # an error shows the entry only, because a mapping may be long
            if isinstance(value, str):
                layers[name] = self._of_layer(value.strip(), whole)
            elif isinstance(value, Sequence) and value:
                text = "+".join(str(self.asked(part, whole)) for part in value)
                layers[name] = self._of_layer(text, whole)
            else:
                layers[name] = self.asked(value, whole)
        general = layers.pop(ALL_LAYERS, self.general)
        if isinstance(general, tuple):
            raise InputError(
                f"{option(self.option, {ALL_LAYERS: general})}: {self.unit} of each phase are for one layer, "
                "not for all"
            )
        return general, MappingProxyType(layers)

    @property
    def _wanted(self) -> str:
        words = f", nor one of {', '.join(self.words)}" if self.words else ""
        return f"a number of {self.unit} above 0{words}"

    def _number(self, text: str, whole: object) -> int | str:
        if text in self.words:
            return text
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
            raise InputError(f"{option(self.option, whole)}: '{text}' is not {self._wanted}")
        return int(text)

    def _of_layer(self, text: str, whole: object) -> Asked:
        """The value after "LAYER=": as for all layers, or a number for each phase such as 24+8."""
        if "+" not in text:
            return self._number(text, whole)
        parts = [self._number(part.strip(), whole) for part in text.split("+")]
        numbers = tuple(part for part in parts if isinstance(part, int))
        if len(numbers) < len(parts):
            raise InputError(
                f"{option(self.option, whole)}: '{text}' adds up what is not a number of {self.unit}; "
                "write LAYER=24+8"
            )
        return numbers

    def _of_text(self, text: str) -> tuple[int | str, Layers]:
        general: int | str | None = None
        layers: dict[str, Asked] = {}
        for item in _ITEMS.findall(text):
            name, equals, value = item.rpartition("=")
            if not equals:
                if general is not None:
                    raise InputError(
                        f"{option(self.option, text)}: '{general}' and '{item.strip()}' are both for all layers; "
                        "give one of them"
                    )
                general = self._number(item.strip(), text)
                continue
            layer = _unescaped(name.strip())
            if layer in layers:
                raise InputError(f"{option(self.option, text)}: layer '{layer}' is given twice")
            layers[layer] = self._of_layer(value.strip(), text)
        return self.general if general is None else general, MappingProxyType(layers)


@dataclass(frozen=True)
class Spec(Pickled):
    """Requested values for layers: `general` is a number or a word; `layers` overrides it by the name of a layer, also with a
    number for its first phase, its second, ..., the last of which is repeated.
    """

    wording: ClassVar[Wording]
    general: int | str
    layers: Mapping[str, Asked] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        return self.wording.written(self.general, self.layers)


ROWS = Wording("rows", "rows", ("auto", "whole", "paper"), "auto")
BATCHES = Wording("batches", "images", ("all",), 1)


def _escaped(name: str) -> str:
    """A layer's name with commas, and blanks at its ends, escaped."""
    text = re.sub(r"[\\,]", r"\\\g<0>", name)
    return re.sub(
        r"^\s+|\s+\Z", lambda blanks: "".join(f"\\u{ord(blank):04x}" for blank in blanks[0]), text
    )


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text)


def _written(value: Asked) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
