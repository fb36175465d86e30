"""Write csdfgen/reading/signatures.tsv from the schemas of the onnx package: `python -m tests.onnx_signatures`."""

from __future__ import annotations

import json

import onnx

from csdfgen.reading.onnx_schema import SIGNATURES_FILE

_OPTION = onnx.defs.OpSchema.FormalParameterOption
_NUMPY_NAMES = {"float": "float32", "double": "float64"}
_DOMAINS = ("", "ai.onnx.ml")


def signature_lines() -> list[str]:
    """One line for each set of element types that several operators have, then one for each version of an operator."""
    sets: dict[tuple[str, ...], int] = {}
    found = sorted(
        (s.domain, s.name, s.since_version, _said(s, sets))
        for s in onnx.defs.get_all_schemas_with_history()
        if s.domain in _DOMAINS
    )
    shared = [f"types\t{at}\t{' '.join(names)}" for names, at in sets.items()]
    return shared + ["\t".join(("operator", *map(str, row))) for row in found]


def _said(schema: onnx.defs.OpSchema, sets: dict[tuple[str, ...], int]) -> str:
    kinds = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = []
    for formal in schema.inputs:
        types = tuple(sorted(map(_element, kinds.get(formal.type_str) or [formal.type_str])))
        agrees = formal.is_homogeneous or formal.option != _OPTION.Variadic
        known = sets.setdefault(types, len(sets))
        inputs.append([formal.type_str, known, agrees, formal.option == _OPTION.Single])
    attributes = {
        name: [str(a.type).rsplit(".", 1)[-1], bool(a.required)]
        for name, a in sorted(schema.attributes.items())
    }
    counts = schema.min_input, schema.max_input, schema.max_output
    outputs = [formal.type_str for formal in schema.outputs]
    return json.dumps([inputs, *counts, attributes, outputs], separators=(",", ":"))


def _element(type_text: str) -> str:
    """numpy's name of the elements in a schema's type such as `tensor(float)`; other types as they are."""
    inner = type_text[len("tensor(") : -1] if type_text.startswith("tensor(") else type_text
    return _NUMPY_NAMES.get(inner, inner).replace(" ", "")


if __name__ == "__main__":
    SIGNATURES_FILE.write_text("\n".join(signature_lines()) + "\n")
