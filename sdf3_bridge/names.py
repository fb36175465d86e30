"""Which name does an actor get in a file for SDF3? One of letters, digits and underscores that encodes the original.

SDF3 prints names without escaping them, so that "&" or "'" break its own XML (output of `buffersize`). Any other
character becomes `_xHEX_`, and so does an underscore before an "x": the mapping depends on nothing but the name, two
names never get the same encoding, and `decode_name` reverses it.
"""

from __future__ import annotations

import re

from csdfgen.dataflow.graph import CsdfGraph

_ENCODED = re.compile(r"[^A-Za-z0-9_]|_(?=x)")
_ESCAPE = re.compile(r"_x([0-9A-F]{1,6})_")
_EMPTY = "_x_"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def describe_name(graph: CsdfGraph) -> str:
    """A graph as errors call it."""
    return f"graph '{graph.name}'"


def encode_name(name: str) -> str:
    """A name of [A-Za-z0-9_]+.

    >>> encode_name("/stem/Conv:0"), encode_name("conv_1")
    ('_x2F_stem_x2F_Conv_x3A_0', 'conv_1')
    """
    return _ENCODED.sub(lambda match: f"_x{ord(match[0]):X}_", name) or _EMPTY


def decode_name(encoded: str) -> str:
    """The name that `encode_name` was given.

    >>> decode_name("_x2F_stem_x2F_Conv_x3A_0")
    '/stem/Conv:0'
    """
    if encoded == _EMPTY:
        return ""
    return _ESCAPE.sub(
        lambda match: chr(int(match[1], 16)) if int(match[1], 16) < 0x110000 else match[0], encoded
    )


def escape_text(text: str) -> str:
    """Text as XML can hold it: characters that it forbids become U+FFFD.

    >>> escape_text("conv\\x00") == "conv\\ufffd"
    True
    """
    return _NOT_XML.sub("\ufffd", text)
