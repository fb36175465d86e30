"""How is a .prototxt read? As messages whose fields are asked for by name and type.

Source: https://protobuf.dev/reference/protobuf/textformat-spec. No schema is needed: who asks for a field
knows its type, and fields that nobody asked for are found by `Message.unread`, because a setting that is
overlooked means a wrong output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar

from csdfgen.errors import ModelError
from csdfgen.reading.onnx_file import label

MAX_INT = 2**31 - 1
"""Of a setting: no size, padding or axis is larger."""

_MAX_DEPTH = 16
"""Of messages in messages; Caffe's own have five."""

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[\w.+-]+)|(?P<mark>[{}<>\[\]:;,])"""
)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?f?")
_INTEGER = re.compile(r"[-+]?\d{1,19}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_FLAGS = {"true": True, "false": False, "True": True, "False": False, "1": True, "0": False}
_CLOSING = {"{": "}", "<": ">"}

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass(slots=True, eq=False)
class Message:
    """A message: the values of each field in order. Questions raise ModelError for what has another type,
    is given twice, or is out of range.
    """

    fields: dict[str, list[_Token | Message]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def message(self, name: str) -> Message:
        """The message in a field; an empty one where it is not set."""
        return self._one(name, self.messages(name), Message())

    def messages(self, name: str) -> list[Message]:
        found = self._values(name)
        for one in found:
            if isinstance(one, _Token):
                raise ModelError(f"{name} in line {one.line} is '{label(one.text, 40)}', not {{ }}")
        return [one for one in found if isinstance(one, Message)]

    def text(self, name: str, default: str = "") -> str:
        return self._one(name, self.texts(name), default)

    def texts(self, name: str) -> list[str]:
        return [token.text for token in self._tokens(name)]

    def integer(self, name: str, default: int, least: int = 0) -> int:
        return self._one(name, self.integers(name, least), default)

    def integers(self, name: str, least: int = 0) -> list[int]:
        found = []
        for token in self._tokens(name):
            value = int(token.text) if _INTEGER.fullmatch(token.text) else None
            if value is None or not least <= value <= MAX_INT:
                raise ModelError(
                    f"{name} in line {token.line} is '{label(token.text, 40)}', not a whole number from {least} to {MAX_INT}"
                )
            found.append(value)
        return found

    def number(self, name: str, default: float) -> float:
        return self._one(name, self.numbers(name), default)

    def numbers(self, name: str) -> list[float]:
        found = []
        for token in self._tokens(name):
            known = _NUMBER.fullmatch(token.text)
            value = float(token.text.rstrip("f")) if known else float("nan")
            if not isfinite(value):
                raise ModelError(
                    f"{name} in line {token.line} is '{label(token.text, 40)}', not a number"
                )
            found.append(value)
        return found

    def flag(self, name: str, default: bool) -> bool:
        return self.word(name, _FLAGS, default)

    def word(self, name: str, known: Mapping[str, _Value], default: _Value) -> _Value:
        """What a word of an enumeration means."""
        found = []
        for token in self._tokens(name):
            if token.text not in known:
                words = ", ".join(known)
                raise ModelError(
                    f"{name} in line {token.line} is '{label(token.text, 40)}'; {words} are known"
                )
            found.append(known[token.text])
        return self._one(name, found, default)

    def unread(self, but: Collection[str]) -> Iterator[str]:
        """Fields that are set and that nobody asked for, those within messages with a dot. but: not these."""
        for name, values in self.fields.items():
            if name in but:
                continue
            if name not in self.asked:
                yield name
                continue
            for value in values:
                if isinstance(value, Message):
                    yield from (f"{name}.{inner}" for inner in value.unread(but))

    def _values(self, name: str) -> list[_Token | Message]:
        self.asked.add(name)
        return self.fields.get(name, [])

    def _tokens(self, name: str) -> list[_Token]:
        found = self._values(name)
        if any(isinstance(one, Message) for one in found):
            raise ModelError(f"{name} is {{ }}, not a value")
        return [one for one in found if isinstance(one, _Token)]

    @staticmethod
    def _one(name: str, values: Sequence[_Value], default: _Value) -> _Value:
        if len(values) > 1:
            raise ModelError(f"{name} is set {len(values)} times; set it once")
        return values[0] if values else default


def parse(text: str) -> Message:
    """The message that a text describes. Raises ModelError with the line.

    >>> found = parse("name: 'a' # net\\n shape { dim: 1 dim: [3, 4] }")
    >>> found.text("name"), found.message("shape").integers("dim")
    ('a', [1, 3, 4])
    """
    tokens = [*_tokens(text), _Token("end", "the end", text.count("\n") + 1)]
    found, at = _message(tokens, 0, "the end", 0)
    assert at == len(tokens)
    return found


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ModelError(
                f"line {line}: {label(text[at : at + 10])!r} is not the text of a network"
            )
        if match["string"] is not None:
            inner = match["string"][1:-1]
            yield _Token(
                "string", re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner), line
            )
        elif match["space"] is None:
            yield _Token("word" if match["word"] is not None else "mark", match[0], line)
        line += match[0].count("\n")
        at = match.end()


def _message(tokens: Sequence[_Token], at: int, end: str, depth: int) -> tuple[Message, int]:
    """The message from a token on up to `end`, and the position behind that."""
    if depth > _MAX_DEPTH:
        raise ModelError(f"line {tokens[at].line}: messages in more than {_MAX_DEPTH} messages")
    found = Message()
    while tokens[at].text != end or tokens[at].kind not in ("mark", "end"):
        name = tokens[at]
        if name.kind != "word":
            raise _unexpected(name, "the name of a field")
        at += 1
        values = found.fields.setdefault(name.text, [])
        colon = tokens[at].text == ":" and tokens[at].kind == "mark"
        at += colon
        if colon and tokens[at].kind == "mark" and tokens[at].text == "[":
            at += 1
            while tokens[at].text != "]" or tokens[at].kind != "mark":
                at = _value(tokens, at, values, True, depth)
                if tokens[at].kind == "mark" and tokens[at].text == ",":
                    at += 1
            at += 1
        else:
            at = _value(tokens, at, values, colon, depth)
        if tokens[at].kind == "mark" and tokens[at].text in (",", ";"):
            at += 1
    return found, at + 1


def _value(
    tokens: Sequence[_Token], at: int, values: list[_Token | Message], colon: bool, depth: int
) -> int:
    """Append the value at a token; the position behind it."""
    token = tokens[at]
    if token.kind == "mark" and token.text in _CLOSING:
        inner, at = _message(tokens, at + 1, _CLOSING[token.text], depth + 1)
        values.append(inner)
        return at
    if not colon or token.kind not in ("word", "string"):
        raise _unexpected(token, "a value" if colon else "':' or '{'")
    at += 1
    while token.kind == "string" and tokens[at].kind == "string":  # "a" "b" is "ab"
        token = _Token("string", token.text + tokens[at].text, token.line)
        at += 1
    values.append(token)
    return at


def _unexpected(token: _Token, wanted: str) -> ModelError:
    return ModelError(
        f"line {token.line}: {wanted} is expected, not '{label(token.text, 40)}'; is it a .prototxt?"
    )
