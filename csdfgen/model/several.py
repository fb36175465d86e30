"""Which networks share a memory, and what do they run after and read? As they are asked for: files, options, and one text that
names them wherever one model is named: [a.onnx b.onnx --rates 1,4].
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from csdfgen.errors import InputError, option
from csdfgen.model.naming import number_unused_name
from csdfgen.model.network import Network, is_bracketed

CROP = "crop"
"""The function of connections that is built in: a region of an image."""

_MOST_RUNS = 64


@dataclass(frozen=True)
class Several:
    """Networks that are to be one. sources: files, names of the zoo, or models in memory, by the names of their networks. rates:
    runs of each in a frame. after: (network, the one that it runs after). connect: as typed. shapes: of inputs, as typed.
    """

    sources: Mapping[str, Any]
    rates: tuple[int, ...] = ()
    after: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As one text, which names a model wherever one is named: [a.onnx b.onnx --rates 1,4]."""
        words = [_source_text(name, one) for name, one in self.sources.items()]
        words += ["--rates", ",".join(map(str, self.rates))] if set(self.rates) - {1} else []
        for flag in ("after", "connect", "shape"):
            given = getattr(self, "shapes" if flag == "shape" else flag)
            words += chain.from_iterable((f"--{flag}", one) for one in given)
        return f"[{shlex.join(words)}]"


def _source_text(name: str, source: Any) -> str:
    text = source if isinstance(source, str) else _stem(source)
    return text if name == _stem(text) else f"{name}={text}"


def _stem(source: Any) -> str:
    """What a network is called: as its file, or as it calls itself."""
    if not isinstance(source, str):
        source = getattr(getattr(source, "graph", source), "name", "") or "network"
    elif not source.startswith("zoo:"):
        source = Path(source).stem
    return re.sub(r"\W", "_", source.removeprefix("zoo:"))


def is_several(source: Any) -> bool:
    """Whether a model that is named, or given, is several networks."""
    return isinstance(source, list | tuple | Several) or is_bracketed(source)


def list_networks(
    sources: Iterable[Any],
    rates: str | Iterable[int] | None = None,
    after: str | Iterable[str] | Mapping[str, str] | None = None,
    connect: str | Iterable[str] | Mapping[str, str] | None = None,
    shapes: Iterable[str] = (),
) -> Several:
    """Networks that are to be one. Raises InputError."""
    named: dict[str, Any] = {}
    taken: set[str] = set()
    for one in sources:
        source = os.fspath(one) if isinstance(one, os.PathLike) else one
        known = isinstance(source, str | bytes | Network) or hasattr(source, "SerializeToString")
        if not known and not hasattr(source, "state_dict"):
            raise InputError(
                f"a list of models has {type(source).__name__}; files, names of the zoo, or models are needed"
            )
        given = re.fullmatch(r"(\w+)=(.+)", one) if isinstance(one, str) else None
        if given and not Path(one).exists():
            name, source = given.groups()
        named[number_unused_name(name if given else _stem(source), taken)] = source
    return Several(named, _rates(rates, len(named)), *map(_texts, (after, connect, shapes)))


def _texts(given: str | Iterable[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    pairs = given.items() if isinstance(given, Mapping) else ()
    return tuple(f"{left}={right}" for left, right in pairs) or tuple(given or ())


def _rates(given: str | Iterable[int] | None, count: int) -> tuple[int, ...]:
    parts = given.split(",") if isinstance(given, str) else [str(one) for one in given or ()]
    text = option("rates", ",".join(parts))
    if any(
        not re.fullmatch(r"\s*0*[1-9]\d{0,3}\s*", one) or int(one) > _MOST_RUNS for one in parts
    ):
        raise InputError(
            f"{text}: runs in a frame are needed, each from 1 to {_MOST_RUNS}, such as 1,4"
        )
    if parts and len(parts) != count:
        raise InputError(f"{text}: {len(parts)} rates for {count} networks; one each is needed")
    return tuple(map(int, parts)) or (1,) * count


def parse_several(text: str) -> Several:
    """The networks of a text such as [a.onnx b.onnx --rates 1,4]. Raises InputError."""
    found: dict[str, list[str]] = {
        "": [],
        "--rates": [],
        "--after": [],
        "--connect": [],
        "--shape": [],
    }
    try:
        words = iter(shlex.split(text[1:-1]))
        for word in words:
            found[word if word.startswith("--") else ""].append(
                next(words) if word.startswith("--") else word
            )
    except (ValueError, KeyError, StopIteration) as error:
        raise InputError(
            f"is no list of networks, such as [a.onnx b.onnx --rates 1,4]: {error}", where=text
        ) from None
    rates = found["--rates"][-1] if found["--rates"] else None
    return list_networks(found[""], rates, found["--after"], found["--connect"], found["--shape"])


def replace_sources(text: str, change: Callable[[str], str]) -> str:
    """The text with other files."""
    one = parse_several(text)
    return str(replace(one, sources={name: change(source) for name, source in one.sources.items()}))


def use_sources(saved: str, given: Any) -> Several:
    """The networks of a text out of other files. given: these, as a list or a text. Raises InputError for another number."""
    mine = parse_several(saved)
    if isinstance(given, str):
        files = parse_several(given).sources if is_several(given) else {"": given}
    else:
        files = list_networks(given).sources
    if len(files) != len(mine.sources):
        raise InputError(f"is of {len(mine.sources)} networks, {saved}; {len(files)} are given")
    return replace(mine, sources=dict(zip(mine.sources, files.values(), strict=True)))


def name_networks(text: str) -> str:
    """What they are called together."""
    return "_and_".join(parse_several(text).sources)
