"""Several networks in onnxruntime, one after the other, as `csdfgen.reading.several` makes one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from csdfgen.model.network import Member, Network, Shape, Tensor
from csdfgen.model.several import CROP
from csdfgen.ops.functions import call_function
from runtime.reference import Reference, Source


def open_reference(
    source: Source, network: Network, *given: Any, **named: Any
) -> Reference | Cascade:
    """A network in onnxruntime; see `Reference` for arguments and errors."""
    if network.members:
        return Cascade(network, *given, **named)
    return Reference(source, network, *given, **named)


class Cascade:
    """The networks of one network in onnxruntime, see `Reference`. left_out: what outputs of runs begin with that the last call
    left out, of networks that ran.
    """

    def __init__(
        self, network: Network, extra: Iterable[str] = (), *given: Any, **named: Any
    ) -> None:
        self.network, self.source = network, network.source or network.name
        self.left_out: tuple[str, ...] = ()
        self._wanted = {*(o.name for o in network.outputs), *extra}
        self._unoptimised = partial(
            Cascade, network, extra, *given, **{**named, "optimised": False}
        )
        self._runs = [
            (one, Reference(_source(one), one.network, _inner(one, extra), *given, **named))
            for one in network.members
        ]

    def unoptimised(self) -> Cascade:
        """The same, where onnxruntime may not rewrite the graphs."""
        return self._unoptimised()

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs and the extra outputs by name. Raises ModelError if onnxruntime cannot run a network."""
        known, self.left_out = dict(feeds), ()
        for member, run in self._runs:
            before = self.left_out
            for prefix in member.prefixes:
                given = {t.name: _input(member, prefix, t, known) for t in member.network.inputs}
                there = {name: array for name, array in given.items() if array is not None}
                runs = len(there) == len(given)
                found = run(there) if runs else self._zeros(prefix)
                self.left_out += () if runs else (prefix,)
                known |= {f"{prefix}{name}": array for name, array in {**there, **found}.items()}
            if {*member.prefixes} <= {*self.left_out}:
                self.left_out = before
        return {name: array for name, array in known.items() if name in self._wanted}

    def _zeros(self, prefix: str) -> dict[str, np.ndarray]:
        """The outputs of a run that is left out."""
        forms = {o.name: self.network.whole_form(o) for o in self.network.outputs}
        return {
            name.removeprefix(prefix): np.zeros(*form)
            for name, form in forms.items()
            if name.startswith(prefix)
        }


def _source(member: Member) -> Source:
    known = isinstance(member.source, str | onnx.ModelProto)
    source: Source = member.source if known else member.network.source
    return source


def _inner(member: Member, names: Iterable[str]) -> list[str]:
    """Names in the network itself."""
    return [
        name[len(start) :] for name in names for start in member.prefixes if name.startswith(start)
    ]


def _input(
    member: Member, prefix: str, tensor: Tensor, known: dict[str, np.ndarray]
) -> np.ndarray | None:
    """An input of a run, None of one that is left out. known: what functions return is added."""
    feed = next((one for one in member.feeds if one.input == tensor.name), None)
    if feed is None:
        return known[f"{prefix}{tensor.name}"]
    arrays, shape = [known[source] for source in feed.sources], tensor.shape
    number, runs = member.prefixes.index(prefix), member.rate
    if not feed.function:
        return arrays[0]
    if feed.function != CROP:
        whole = (runs * shape[0], *shape[1:]), tensor.dtype
        made = _call(feed.function, arrays, str(feed), known, whole)
        return made[number * shape[0] : (number + 1) * shape[0]]
    *before, image = arrays
    boxes = before[0]
    if feed.finder:
        boxes = _call(feed.finder, before, str(feed), known, ((runs, 4), "float32"))
    box = boxes[number][None, :4]
    found: np.ndarray = _cropper(*shape[2:])(image, box)
    return found if (box[:, 2:] > box[:, :2]).all() else None


def _call(
    name: str,
    arrays: Sequence[np.ndarray],
    key: str,
    known: dict[str, np.ndarray],
    form: tuple[Shape, str],
) -> np.ndarray:
    """What a function returns, which is called once for all runs of a frame."""
    if key not in known:
        known[key] = np.empty(*form)
        call_function(name, *arrays, known[key])
    return known[key]


@cache
def _cropper(rows: int, columns: int) -> Any:
    """A function of an image and a box."""
    import onnxruntime

    node = helper.make_node(
        "RoiAlign",
        ["image", "box", "of"],
        ["y"],
        output_height=rows,
        output_width=columns,
        sampling_ratio=1,
    )
    ends = [
        ("image", 4, TensorProto.FLOAT),
        ("box", 2, TensorProto.FLOAT),
        ("of", 1, TensorProto.INT64),
    ]
    inputs = [helper.make_tensor_value_info(name, kind, [None] * rank) for name, rank, kind in ends]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    model = helper.make_model(
        helper.make_graph([node], "crop", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )

    def crop(image: np.ndarray, box: np.ndarray) -> np.ndarray:
        feeds = {"image": image, "box": box, "of": np.zeros(1, np.int64)}
        found: np.ndarray = session.run(None, feeds)[0]
        return found

    return crop
