"""What is said of operators that are not supported?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from csdfgen.errors import UnsupportedOperatorError
from csdfgen.reading.onnx_file import label

_MOST_OPERATORS = 24
_MOST_NODES = 3

_CONTROL_FLOW = frozenset({"Loop", "Scan", "SequenceMap", "WHILE"})


def _is_quantized(op_type: str) -> bool:
    return "Quantize" in op_type or "QLinear" in op_type or op_type.endswith("Integer")


def unsupported_error(found: Mapping[str, Sequence[str]]) -> UnsupportedOperatorError:
    """One error for all of them. found: operator -> names of its nodes.

    >>> str(unsupported_error({"Loop": ["a", "b", "c", "d"], "QLinearConv": ["q"]}))[:64]
    'operators that are not supported: Loop (a, b, c, +1), QLinearCon'
    """
    listed = []
    for op_type in list(found)[:_MOST_OPERATORS]:
        names = found[op_type]
        more = [f"+{len(names) - _MOST_NODES}"] if len(names) > _MOST_NODES else []
        listed.append(
            f"{label(op_type) or chr(39) * 2} ({', '.join([label(n) for n in names[:_MOST_NODES]] + more)})"
        )
    if len(found) > _MOST_OPERATORS:
        listed.append(f"{len(found) - _MOST_OPERATORS} more")
    advice = []
    if any(_is_quantized(op) for op in found):
        advice.append(
            "leave the layers of other quantized operators in float when the model is quantized "
            "(nodes_to_exclude)"
        )
    if _CONTROL_FLOW & set(found):
        advice.append(
            "loops whose turns depend on data are not supported; export the model with fixed sizes and loops unrolled"
        )
    if any(not _is_quantized(op) and op not in _CONTROL_FLOW for op in found):
        advice.append("export the model without them; 'csdfgen operators' lists the supported ones")
    return UnsupportedOperatorError(
        f"operators that are not supported: {', '.join(listed)}: {'; '.join(advice)}"
    )
