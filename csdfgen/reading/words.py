"""What do strings become? Tensors hold numbers: those of the words in a list, which is kept for the outputs.

Classifiers of tables of features give the label of a class as a string, and their scores as a map for each sample (ZipMap).
Here a label is the number of its class, and scores are the tensor that the maps are made of, with a column for each class.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from onnx import helper

from csdfgen.errors import ModelError
from csdfgen.ops.base import TABLES
from csdfgen.reading.onnx_file import label, text
from csdfgen.reading.onnx_graph import Graph, Operation

_NUMBERS = {
    "LinearClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
    "ZipMap": "classlabels_int64s",
}
"""Operator -> its attribute of labels that are no strings."""

_STRINGS = "classlabels_strings"

_MOVING = frozenset(
    [
        "ArrayFeatureExtractor",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators that only move the elements of their first operand."""


def number_words(graph: Graph) -> Graph:
    """The graph with numbers instead of strings, and what they stand for in its outputs. Raises ModelError where strings are
    compared or computed with.
    """
    words = graph.constants.number_strings()
    zipped: dict[str, tuple[str | int, ...]] = {}
    operations = []
    for one in graph.operations:
        read = [name for name in (*one.inputs, *one.captured) if name in words or name in zipped]
        moved = one.op_type in _MOVING and read == [one.inputs[0]]
        if read and (not moved or read[0] in zipped):
            what = "maps" if read[0] in zipped else "strings"
            raise ModelError(
                f"reads {what} ('{label(read[0])}'), which only outputs may be; end the model in front of it",
                where=f"layer '{one.name}' ({label(one.op_type)})",
            )
        if moved:
            words[one.outputs[0]] = words[read[0]]
        elif one.domain == TABLES and one.op_type in _NUMBERS:
            strings, one = _number_labels(one)
            if one.op_type == "ZipMap":
                zipped[one.outputs[0]] = strings or tuple(one.attributes[_NUMBERS["ZipMap"]].ints)
            elif strings:
                words[one.outputs[0]] = strings
        operations.append(one)
    known = {**words, **zipped}
    labels = {name: known[name] for name in graph.outputs if name in known}
    return replace(graph, operations=tuple(operations), labels=MappingProxyType(labels))


def _number_labels(one: Operation) -> tuple[tuple[str, ...], Operation]:
    """(the strings that name the classes, the operation with numbers instead); none where numbers do."""
    given = one.attributes.get(_STRINGS)
    strings = tuple(map(text, given.strings)) if given is not None else ()
    if not strings:
        return strings, one
    name = _NUMBERS[one.op_type]
    numbers = helper.make_attribute(name, range(len(strings)))
    kept = {key: value for key, value in one.attributes.items() if key != _STRINGS}
    return strings, replace(one, attributes={**kept, name: numbers})
