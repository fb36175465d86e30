"""Several networks in onnxruntime, one after the other, as `csdfgen.reading.several` makes one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from csdfgen.model.network import Member, Network
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
                names = {t.name: t.shape for t in member.network.inputs}
                given = {
                    name: _input(member, prefix, name, known, shape)
                    for name, shape in names.items()
                }
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
    member: Member, prefix: str, name: str, known: Mapping[str, np.ndarray], shape: tuple[int, ...]
) -> np.ndarray | None:
    """An input of a run, None of one that is left out."""
    feed = next((one for one in member.feeds if one.input == name), None)
    if feed is None or not feed.function:
        return known[f"{prefix}{name}" if feed is None else feed.sources[0]]
    boxes, image = (known[source] for source in feed.sources)
    box = boxes[member.prefixes.index(prefix)][None, :4]
    found: np.ndarray = _cropper(*shape[2:])(image, box)
    return found if (box[:, 2:] > box[:, :2]).all() else None


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
