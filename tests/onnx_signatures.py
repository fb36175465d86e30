"""Write csdfgen/reading/signatures.tsv from the schemas of the onnx package: `python -m tests.onnx_signatures`.

Operators of onnxruntime's own, of which the onnx package has no schemas, are copied from
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

import json

import onnx

from csdfgen.ops.base import MICROSOFT
from csdfgen.reading.onnx_schema import SIGNATURES_FILE

_OPTION = onnx.defs.OpSchema.FormalParameterOption
_NUMPY_NAMES = {"float": "float32", "double": "float64"}
_DOMAINS = ("", "ai.onnx.ml")

_BYTES = frozenset({"int8", "uint8"})

_TYPES: dict[str, frozenset[str]] = {
    "T": _BYTES,
    "A": _BYTES,
    "B": _BYTES,
    "float": frozenset({"float32"}),
    "int": frozenset({"int32"}),
    "any": _BYTES | {"float32"},
    "F": frozenset({"float16", "float32", "float64"}),
    "G": frozenset({"float16", "float32", "float64"}),
    "M": frozenset({"int32"}),
    "long": frozenset({"int64"}),
    "byte": frozenset({"uint8"}),
    "index": frozenset({"int32", "int64"}),
    "points": frozenset({"uint8", "float16", "float32"}),
}
"""Type variable -> element types."""

_TWO = "T float T? T float T? float T?"
_ONE = "T float T? float T?"

_ATTENTION = "FLOAT mask_filter_value scale; INT num_heads! unidirectional"
_PRODUCT = "FLOAT alpha; INT transA transB"
_GROUP_NORM = "INT activation! channels_last groups!; FLOAT epsilon"

_OPERATORS: dict[str, tuple[str, str]] = {
    "BiasAdd": ("F F F", ""),
    "BiasGelu": ("F F", ""),
    "BiasSplitGelu": ("F F", ""),
    "DynamicQuantizeLSTM": (
        "float B B float? int? float? float? float? float B float B -> 3",
        "FLOATS activation_alpha activation_beta; STRINGS activations; FLOAT clip; STRING direction; "
        "INT hidden_size input_forget",
    ),
    "DynamicQuantizeMatMul": ("float B float B? float?", ""),
    "EmbedLayerNormalization": ("M M? F F F? F F M? M? -> 3", "FLOAT epsilon; INT mask_index_type"),
    "FastGelu": ("F F?", ""),
    "FusedConv": (
        "F F F? F?",
        "STRING activation auto_pad; FLOATS activation_params; INT group; INTS dilations kernel_shape pads strides",
    ),
    "FusedGemm": (
        "F F F?",
        f"{_PRODUCT}; STRING activation; FLOAT activation_alpha activation_beta activation_gamma beta",
    ),
    "FusedMatMul": ("F F", f"{_PRODUCT}; INT transBatchA transBatchB"),
    "GatherBlockQuantized": ("byte index F byte?", "INT bits block_size gather_axis quantize_axis"),
    "GroupNorm": ("F G G", _GROUP_NORM),
    "MatMulNBits": (
        "F byte F points? M? F?",
        "INT K! N! accuracy_level bits block_size! weight_prepacked",
    ),
    "QGemm": ("A float A B float B int? float? A?", _PRODUCT),
    "QLinearAdd": (_TWO, ""),
    "QLinearAveragePool": (
        _ONE,
        "STRING auto_pad; INT ceil_mode channels_last count_include_pad; INTS kernel_shape! pads strides",
    ),
    "QLinearConcat": ("float T any*", "INT axis"),
    "QLinearGlobalAveragePool": (_ONE, "INT channels_last"),
    "QLinearLeakyRelu": (_ONE, "FLOAT alpha"),
    "QLinearMul": (_TWO, ""),
    "QLinearSigmoid": (_ONE, ""),
    "QLinearSoftmax": (_ONE, "INT axis opset!"),
    "MatMulIntegerToFloat": ("A B float float A? B? float?", ""),
    "MultiHeadAttention": ("F F? F? F? M? F? F? F? M? M? -> 4", _ATTENTION),
    f"{MICROSOFT}.Attention": (
        "F F F? M? F? F? M? -> 2",
        f"{_ATTENTION} do_rotary past_present_share_buffer rotary_embedding_dim; INTS qkv_hidden_sizes",
    ),
    "QuickGelu": ("F", "FLOAT alpha"),
    "SimplifiedLayerNormalization": ("F G -> 2", "FLOAT epsilon; INT axis stash_type"),
    "SkipGroupNorm": ("F G G F F? -> 2", _GROUP_NORM),
    "SkipLayerNormalization": ("F F F F? F? -> 4", "FLOAT epsilon"),
    "SkipSimplifiedLayerNormalization": ("F F F F? -> 4", "FLOAT epsilon"),
    "TransposeMatMul": ("F F", _PRODUCT),
    f"{MICROSOFT}.SwiGLU": (
        "F F?",
        "FLOAT activation_alpha activation_beta limit; INT round_activation",
    ),
    f"{MICROSOFT}.RotaryEmbedding": (
        "F long F F",
        "FLOAT scale; INT interleaved is_packed_batching num_heads rotary_embedding_dim",
    ),
}
"""Operator -> inputs by their type variables (`?`: may be absent; `*`: any number) and how many results there are at
most, if not one; and attributes behind their kinds (`!`: may not be absent).
"""

_MOST = 2**31 - 1


def signature_lines() -> list[str]:
    """One line for each set of element types that several operators have, then one for each version of an operator."""
    sets: dict[tuple[str, ...], int] = {}
    found = sorted(
        (s.domain, s.name, s.since_version, _said(s, sets))
        for s in onnx.defs.get_all_schemas_with_history()
        if s.domain in _DOMAINS
    )
    found += [
        (MICROSOFT, name, 1, _documented(*_OPERATORS[name], sets)) for name in sorted(_OPERATORS)
    ]
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


def _documented(text: str, attributes: str, sets: dict[tuple[str, ...], int]) -> str:
    """The same of an operator of onnxruntime's own."""
    taken, _, results = text.partition("->")
    names, inputs = taken.split(), []
    for name in names:
        types = tuple(sorted(_TYPES[name.rstrip("?*")]))
        known = sets.setdefault(types, len(sets))
        inputs.append([name.rstrip("?*"), known, name[-1] != "*", name[-1] not in "?*"])
    least = max(k + 1 for k, one in enumerate(inputs) if one[3])
    most = _MOST if names[-1].endswith("*") else len(names)
    kinds = (one.split() for one in attributes.split(";") if one)
    given = {n.rstrip("!"): [kind, n.endswith("!")] for kind, *some in kinds for n in some}
    said = [inputs, least, most, int(results or 1), given, []]
    return json.dumps(said, separators=(",", ":"))


def _element(type_text: str) -> str:
    """numpy's name of the elements in a schema's type such as `tensor(float)`; other types as they are."""
    inner = type_text[len("tensor(") : -1] if type_text.startswith("tensor(") else type_text
    return _NUMPY_NAMES.get(inner, inner).replace(" ", "")


if __name__ == "__main__":
    SIGNATURES_FILE.write_text("\n".join(signature_lines()) + "\n")
