"""Which convolutions have kernels? Conv and ConvTranspose of one to three axes.

A transposed convolution is as many plain ones as its strides have residues: the outputs of a residue
are a stride apart, and read with some of the taps. Neighbouring outputs of a row, one of each residue, may
be channels of one pixel: few channels then fill more of a vector.

Five kernels compute the same: `csdf_depthwise` where every channel is a group; `csdf_conv_dots` for few output
channels with long sums; `csdf_winograd_row` and `csdf_winograd` where they are estimated to be faster in the
workspace that the step has; else `csdf_conv`. The estimates are those of `families.winograd`. Sums along the rows
differ from plain ones by about 4e-6 of the largest value, those of tiles by 1e-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np

from csdfgen.backends.native import packing
from csdfgen.backends.native.families.common import (
    FLOAT,
    EachLines,
    Family,
    Layout,
    Lines,
    Map,
    Part,
    Planes,
    choose_layout,
    count_activations,
    epilogue_activation,
    held_rows,
    pixel,
    read_along,
    spatial_sizes,
    spatial_windows,
)
from csdfgen.backends.native.families.runs import Sliding, Windows, split_into_runs
from csdfgen.backends.native.families.winograd import (
    GAIN,
    PLAIN,
    POINTS,
    Shape,
    Size,
    Way,
    choose_way,
    direct_cost,
    kept_bytes,
    row_winograd_cost,
    tile_winograd_cost,
)
from csdfgen.backends.native.structures import (
    NONE,
    PANEL,
    Activation,
    Source,
    instruction,
    structure,
    type_suffix,
)
from csdfgen.backends.native.ways import (
    CONV,
    DOTS,
    ESTIMATED,
    HALVES,
    ROWS,
    TILES,
    Choice,
    Variant,
    Ways,
)
from csdfgen.model.network import Layer, Tensor
from csdfgen.model.rows import Rows, Window
from csdfgen.ops import get_operator
from csdfgen.ops.base import PREFERRED, Mode, Phase
from csdfgen.ops.windows import list_windows
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Form, Step

ConvStep = structure("csdf_conv_step").record
PackedLayer = structure("csdf_layer").record
Target = structure("csdf_target").record

LEAST_INPUTS = 16
"""Input channels below which its sums are too short."""

IMAGES = 4
"""Images at most, each of which makes as much workspace again worth its bytes: so many tiles share weights
that come from memory. Four times 256 KiB still stay in a second-level cache.
"""

DEPTHWISE, BY_DOTS = Way("depthwise"), Way(DOTS)

DEPTHWISE_BF16 = Way("depthwise_bf16")

TAPS = 64
"""Taps at most of a depthwise layer of bfloat16: no sums are stored between them."""

IN_HALVES = {name: Way(kernel) for name, kernel in HALVES.items()}

FEW_OUTPUTS = PANEL // 2
"""Output channels up to which vectors may lie along the sums."""

FEW_INPUTS = 2 * PANEL
"""Input channels up to which taps are joined: more are worth a pointer of their own."""

LINE, LINES = 768, 16
"""Floats, and rows, of windows that the kernel of few channels computes (c/conv_lines.c)."""

TOTAL = 6
"""Vectors of products that a sum takes as long as that adds up a vector and is written by itself."""

NARROW = 8
"""Channels of a vector of an instruction set with narrow ones."""

FORMS = Variant(ROWS, 0, True), Variant(TILES, 2, True), Variant(TILES, 4, True)
"""Those of weights that are stored at points."""

PASSES = (640, 2560)
"""Weights of a filter at a time that are variants of those that `csdf_conv` takes by itself."""

BLOCKS = (65536,)
"""Bytes of workspace that are variants of `PREFERRED`."""


def canonical_way(way: Way) -> Way:
    """The way that stands for all of those that read weights which are stored alike."""
    if way.kernel in (CONV, ROWS, TILES) and not way.at_points:
        return PLAIN
    return replace(way, workspace=0, some=0)


@dataclass(frozen=True, eq=False)
class Packed:
    """A layer as a kernel wants it: its record without places, and its arrays."""

    layer: Any
    weights: np.ndarray
    bias: np.ndarray

    @cached_property
    def no_bias(self) -> np.ndarray:
        """Zeros in its place."""
        return packing.aligned(np.zeros_like(self.bias))

    def with_windows(self, by: Sliding) -> Packed:
        """The same weights, in windows of that form."""
        layer = self.layer._replace(
            in_channels=by.ins, kernel_h=by.high, kernel_w=by.wide, stride_h=by.stride[0], stride_w=by.stride[1],
            dilation_h=by.dilation[0], dilation_w=by.dilation[1], pad_left=by.left,
        )  # fmt: skip
        return replace(self, layer=layer)

    def placed(self, constants: Constants) -> Ref:
        """The place of its record."""
        arrays = constants.weights(self.weights), constants.weights(self.bias)
        record = self.layer._replace(weights=arrays[0], bias=arrays[1])
        return constants.table("csdf_layer", [record])


@dataclass(frozen=True)
class Filter:
    """Sums of products that slide over a map: a Conv layer, or one residue of a ConvTranspose.

    weights: (out, in / groups, height, width). stride, dilation: down and along the rows. left: columns
    of padding; negative ones are skipped. stacked: weights are (out, in, planes, height, width), and those
    of a plane are taken for input channels behind those of the plane before.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    groups: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    left: int
    activation: tuple[int, float, float]
    stacked: bool = False

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Output channels, input channels of a group, height, width."""
        outs, ins, *planes, high, wide = self.weights.shape
        return outs, ins * prod(planes), high, wide

    @property
    def sliding(self) -> Sliding:
        """Its windows."""
        _, ins, high, wide = self.shape
        return Sliding(ins * self.groups, high, wide, self.stride, self.dilation, self.left)

    @property
    def taps(self) -> np.ndarray:
        """The weights in that shape."""
        return self.weights.swapaxes(1, 2).reshape(self.shape) if self.stacked else self.weights

    @property
    def vectors(self) -> int:
        """Products of an input channel and a pixel, by vectors of output channels."""
        outs, _, high, wide = self.shape
        return high * wide * -(-outs // NARROW)

    @property
    def depthwise(self) -> bool:
        """Whether there is nothing to add up over channels."""
        return self.shape[1] == 1 < self.groups

    @property
    def in_bf16(self) -> bool:
        """Whether a depthwise kernel of bfloat16 computes it."""
        outs, _, high, wide = self.shape
        return self.depthwise and outs == self.groups and high * wide <= TAPS

    def way(
        self,
        rows: int,
        columns: int,
        room: int,
        exact: bool = False,
        wished: Variant | None = None,
        images: int = 1,
    ) -> Way:
        """How so many rows and columns of the output, of each of so many images, are computed in `room`
        bytes of workspace: as wished where that is possible, else the way that is estimated to be the
        fastest. exact: by sums of products, each added to the one before.
        """
        if self.depthwise:
            return DEPTHWISE
        if wished is not None and wished.kernel == CONV:
            return Way(CONV, some=wished.block)
        if exact:
            return PLAIN
        if self.dots and (wished is None or wished.kernel == DOTS):
            return BY_DOTS
        if not self.transforms:
            return PLAIN
        wide, size = self.shape[3], (images, rows, columns)
        if wished is not None and (wished.kernel == ROWS or (wished.tile and self.square)):
            most = wished.block or self.preferred
            (cost, found), (_, meant) = (
                self._transformed(wished, size, limit) for limit in (min(room, most), most)
            )
            # in much smaller blocks (less than half the tiles, of fewer channels) it is not what was measured to be the fastest;
            # but beside weights at points, plain ones would be a second copy
            small = 3 * found.workspace < meant.workspace and not wished.at_points
            slow = small and cost >= direct_cost(self.seen, wide, size)
            return found if found.workspace and not slow else PLAIN
        return choose_way(self.seen, wide, self.groups == 1, size, room)

    @property
    def seen(self) -> Shape:
        """Sizes as estimates know them."""
        outs, ins, high, _ = self.shape
        return ins, outs // self.groups, high, self.stride[0], self.dilation[0]

    def _transformed(self, form: Variant, size: Size, room: int) -> tuple[float, Way]:
        """What a form of Winograd's costs, and the way; without a workspace where there is no room."""
        if form.kernel == ROWS:
            return row_winograd_cost(self.seen, self.shape[3], size, room, form.at_points)
        return tile_winograd_cost(self.seen, form.tile, size, room, form.at_points)

    def form(self, form: Variant | None, size: Size) -> tuple[float, Way]:
        """The same of a form at points in as much workspace as it takes; of plain weights, where it cannot be had or is None."""
        usual = self.way(*size[1:], self.preferred, images=size[0])
        for one in (form, Variant(usual.kernel, usual.tile)):
            if one is not None and (one.kernel == ROWS or (one.tile and self.square)):
                cost, way = self._transformed(one, size, self.preferred)
                if way.workspace:
                    return GAIN * cost, way
        return direct_cost(self.seen, self.shape[3], size), usual

    @property
    def preferred(self) -> int:
        """Bytes of workspace beyond which more bring nothing: `PREFERRED`, and those that taking weights to points needs."""
        outs, _, high, _ = self.shape
        if not self.transforms:
            return PREFERRED
        outs //= self.groups
        return PREFERRED + max(
            kept_bytes(outs, POINTS, high), kept_bytes(outs, POINTS**2) if self.square else 0
        )

    def packed_bytes(self, way: Way) -> int:
        """Bytes of its weights as `pack` packs them, of floats."""
        outs, ins, high, wide = self.shape
        if way.kernel in (DEPTHWISE.kernel, DOTS):
            return FLOAT * outs * ins * high * wide
        each = outs // self.groups
        if not way.at_points:
            return FLOAT * packing.panel_size(outs * ins * high * wide, each)
        taps = {ROWS: POINTS * high, TILES: POINTS * (way.tile + 2)}
        return FLOAT * self.groups * (each + -each % PANEL) * ins * taps[way.kernel]

    @property
    def dots(self) -> bool:
        """Whether vectors along the sums are clearly fewer than those along output channels, of which there are few."""
        _, ins, high, wide = self.shape
        runs, run = (high, wide * ins) if self.dilation[1] == 1 else (high * wide, ins)
        return self.few_for(runs, run)

    def has_runs(self, width: int) -> bool:
        """Whether taps of its windows are joined, in rows of so many columns: those of a signal, and those of a row that
        is too long for the kernel of few channels.
        """
        _, ins, high, wide = self.shape
        if self.groups > 1 or ins > FEW_INPUTS:
            return False
        if width == 1:
            return high > 1 == wide == self.dilation[0]
        room = LINE // high if high <= LINES else 0
        return wide > 1 == self.dilation[1] and room < ins * (wide + 3 * self.stride[1])

    def few_for(self, runs: int, run: int) -> bool:
        """Whether output channels are so few for windows of so many runs of so many products."""
        outs, few = self.shape[0], self.groups == 1 and self.shape[0] <= FEW_OUTPUTS
        return few and 4 * outs * (runs * -(-run // PANEL) + TOTAL) < 3 * runs * run

    @property
    def transforms(self) -> bool:
        """Whether Winograd's form along the rows computes it."""
        _, ins, high, wide = self.shape
        reads = (self.stride[1], self.dilation[1]) == (1, 1)
        return reads and ins >= LEAST_INPUTS and 2 <= wide <= 5 and high <= 127

    @property
    def square(self) -> bool:
        """Whether that in tiles does."""
        _, _, high, wide = self.shape
        once = (*self.stride, *self.dilation) == (1, 1, 1, 1)
        return self.transforms and once and (high, wide, self.groups) == (3, 3, 1)

    def variants(self, rows: int, columns: int) -> tuple[Variant, ...]:
        """Those that compute so many rows and columns otherwise than the others do."""
        if self.depthwise:
            return ()
        _, ins, high, wide = self.shape
        found = [Variant(DOTS)] * self.dots + [Variant(CONV)]
        found += [Variant(CONV, block=some) for some in PASSES if some < high * wide * ins]
        kernels = [(ROWS, 0)] * self.transforms + [(TILES, 2), (TILES, 4)] * self.square
        for (kernel, tile), at_points in product(kernels, (True, False)):
            ways: set[Way] = set()
            for block in (0, *BLOCKS):
                variant = Variant(kernel, tile, at_points, block)
                way = self.way(rows, columns, self.preferred, wished=variant)
                if way.workspace and way.kernel == kernel and way not in ways:
                    ways.add(way)
                    found.append(variant)
        return tuple(found)

    def pack(self, way: Way) -> Packed:
        """The layer as the kernels want it whose weights are stored so, without the places of its arrays."""
        outs, ins, high, wide = self.shape
        groups = self.groups
        packs: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            **dict.fromkeys(("depthwise", DEPTHWISE_BF16.kernel), packing.depthwise_weights),
            CONV: lambda w: packing.conv_weights(w, groups),
            **dict.fromkeys(HALVES.values(), lambda w: packing.pack_paired_conv_weights(w, groups)),
            DOTS: packing.dot_weights,
            ROWS: lambda w: packing.winograd_row_weights(w, groups),
            TILES: lambda w: packing.winograd_weights(w, way.tile),
        }
        if self.depthwise:
            bias = packing.depthwise_bias(self.bias, outs)
        else:
            bias = packing.conv_bias(self.bias, outs, groups)
        made = PackedLayer(
            ins * groups, outs, groups, high, wide, *self.stride, *self.dilation, self.left,
            Activation(*self.activation), int(way.at_points),
        )  # fmt: skip
        taps = self.taps
        if way.runs:
            taps = taps.transpose(0, 3, 1, 2).reshape(outs, wide * ins, high, 1)
        return Packed(made, packs[way.kernel](taps), bias)


# Steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Convolution(Family):
    """filters: of the layer, most often one. layout: of its rows. packed: by number and kernel. parts:
    those of a step. choice: how they are computed. halves: the kernels' name of a type of two bytes that is
    read and written, as the weights are; "" for none.
    together: the parts of a step whose output pixels follow each other in memory, if these are others.
    """

    kernels = ("conv_of", "depthwise_of")  # and others, unless it is exact

    filters: tuple[Filter, ...]
    layout: Layout
    packed: Callable[[int, Way], Packed]
    parts: Callable[[Rows], list[Part]]
    choice: Choice = ESTIMATED
    halves: str = ""
    together: Callable[[Rows], list[Part]] | None = None

    @property
    def weights(self) -> int:
        """How many weights the layer has."""
        return sum(own.weights.size for own in self.filters)

    def in_halves(self, layer: Layer, dtype: str) -> Family | None:
        """None where there are too few channels for products of pairs, and no kernel of single ones."""
        halves, stored = type_suffix(np.dtype(dtype)), self.filters[0].weights.dtype
        suits = stored == dtype and all(
            own.shape[1] >= LEAST_INPUTS or (halves == "bf16" and (own.in_bf16 or self._joins(own)))
            for own in self.filters
        )
        return replace(self, halves=halves) if suits else None

    def computed(self, ways: Ways, layer: str) -> Convolution:
        """The same, computed so. layer: its name."""
        return replace(self, choice=ways.of(layer)) if ways.exact or ways.text else self

    def variants(self, rows: int) -> tuple[Variant, ...]:
        """Ways to compute slabs of so many rows, each once."""
        out = Rows(0, rows)
        return tuple(
            dict.fromkeys(
                one
                for parts in (self.parts, self.together)
                for part in (parts(out) if parts else ())
                for one in self.filters[part.number].variants(part.rows, part.columns)
            )
        )

    def forms(self, layer: Layer, rows: int) -> tuple[Form, ...]:
        if self.halves or not any(one.transforms and not one.depthwise for one in self.filters):
            return ()
        total = layer.output.rows
        slabs = [(total // rows, rows), (1, total % rows)]
        first = self._form(None, slabs)
        found = [self._form(form, slabs) for form in FORMS]
        return (first, *(one for one in found if one.work < first.work))

    def _form(self, form: Variant | None, slabs: list[tuple[int, int]]) -> Form:
        """The weights in one form, and what so many slabs of so many rows cost."""
        ways, work = set[tuple[int, Way]](), 0.0
        for count, rows in slabs:
            for part in (self.together or self.parts)(Rows(0, rows)) if rows else ():
                own = self.filters[part.number]
                cost, way = own.form(form, (1, part.rows, part.columns))
                ways.add((part.number, canonical_way(way)))
                work += count * cost
        taken = sum(self.filters[number].packed_bytes(way) for number, way in ways)
        return Form(str(form or ""), taken, work)

    def _parts(self, step: Step) -> list[Part]:
        """Those of a step."""
        target = step.outputs[0]
        if self.together and pixel(target) == target.shape[-1]:
            return self.together(step.phase.out)
        return self.parts(step.phase.out)

    def _way(self, part: Part, step: Step, room: int) -> Way:
        if self.halves:
            alone = self.filters[part.number].depthwise
            return DEPTHWISE_BF16 if alone else IN_HALVES[self.halves]
        wished = self.choice.at(len(step.phase.out)) if self.choice.variants else None
        own, images = self.filters[part.number], step.phase.images
        return own.way(part.rows, part.columns, room, self.choice.exact, wished, images)

    def takes(self, step: Step) -> bool:
        view = step.inputs[0]
        if self.halves and view is not None and (view.pieces or isinstance(self.layout, Planes)):
            # no pair has channels of two pieces
            sizes = [piece.shape[-1] for piece in view.pieces or (view,)]
            if any(size % 2 for size in (*sizes, *(own.shape[1] for own in self.filters))):
                return False
        return self.layout.takes(step)

    def follows(self, layer: Layer) -> int:
        return count_activations(layer)

    def within(self, layer: Layer, start: int, stop: int) -> tuple[Family, int, int] | None:
        if layer.op_type != "Conv" or not isinstance(self.layout, Map):
            return None
        (own,) = self.filters
        across = Window(own.shape[3], own.stride[1], own.dilation[1], own.left)
        low, high, left = read_along(across, start, stop, self.layout.width)

        def packed(number: int, way: Way) -> Packed:
            whole = self.packed(number, way)
            return replace(whole, layer=whole.layer._replace(pad_left=left))

        def parts(out: Rows) -> list[Part]:
            return [replace(part, columns=stop - start) for part in self.parts(out)]

        filters = (replace(own, left=left),)
        found = replace(self, filters=filters, layout=Map(high - low), packed=packed, parts=parts)
        return found, low, high

    def workspace(self, step: Step, limit: int | None) -> int:
        parts = self._parts(step)
        preferred = max((self.filters[part.number].preferred for part in parts), default=0)
        most = preferred + PREFERRED * (min(step.phase.images, IMAGES) - 1)
        limit = most if limit is None else min(limit, most)
        while True:
            found = max((self._way(part, step, limit).workspace for part in parts), default=0)
            # a firing without room for the form of the others has weights of its own
            if found or limit in (0, most) or not self.choice.grows:
                return found
            limit = min(2 * limit, most)

    def least(self, step: Step) -> int:
        return 0

    def lower(self, step: Step, constants: Constants) -> list[Instruction]:
        phase, view, target, pad = step.phase, step.view(0), step.outputs[0], step.workspace
        images, each = phase.images, len(phase.out)
        sums = get_operator(step.layer).mode(step.layer) is Mode.ACCUMULATE
        there = [(one.rows, one) for one in view.pieces or (view,)]
        read = self.layout.reader(held_rows(step), there, images)
        written, apart = target.rows, pixel(target)
        found = []
        for part in self._parts(step):
            own = self.filters[part.number]
            way = self._way(part, step, pad.size)
            reach = (part.rows - 1) * own.stride[0] + (own.shape[2] - 1) * own.dilation[0] + 1
            tables = read(part, reach)
            skipped = target.format.itemsize * part.first[1] * apart
            mine = [
                at + skipped
                for first in range(0, images * each, each)
                for at in self.layout.written(part, written[first : first + each], target)
            ]
            whole = Windows(
                own.sliding,
                tuple((table, pixel(piece), piece.shape[-1]) for table, piece in tables),
                self.layout.width,
                mine,
                part.columns,
                apart * part.stride[1],
            )
            joins = way.kernel == CONV and not sums and own.has_runs(self.layout.width)
            joins = joins or (bool(self.halves) and self._joins(own))
            size = target.format.itemsize
            for one in split_into_runs(whole, images, size) if joins else (whole,):
                runs = one.sliding.ins > own.sliding.ins
                if self.halves:
                    way = replace(way, runs=runs)
                elif runs and self._suits_dots(own, one.sliding):
                    way = BY_DOTS
                packed = self.packed(part.number, way).with_windows(one.sliding)
                if sums:
                    packed = _in_turn(packed, phase)
                sources = [
                    Source(
                        None if rows is None else constants.rows(piece.pool, rows), pixels, channels
                    )
                    for (_, piece), (rows, pixels, channels) in zip(
                        tables, one.sources, strict=True
                    )
                ]
                out = constants.rows(target.pool, one.written)
                before = Source(out, apart, own.shape[0])
                pad_at = Ref(pad.pool, pad.offset) if way.workspace else None
                made = ConvStep(
                    packed.placed(constants), constants.table("csdf_source", sources), len(sources), one.width,
                    Target(out, one.pace, len(one.written), 0, one.columns, 0, own.shape[0]),
                    constants.table("csdf_source", [before]) if sums and not phase.first else None,
                    pad_at, pad.size if way.workspace else 0, way.tile, way.some,
                    *((part.rows, reach) if images > 1 else (0, 0)),
                )  # fmt: skip
                found.append(instruction(f"{way.kernel}_of", made))
        return found

    def _joins(self, own: Filter) -> bool:
        """Whether the few input channels of a filter on two bytes are pairs across the taps of a row."""
        _, ins, _, wide = own.shape
        few = own.groups == 1 and ins < LEAST_INPUTS <= 2 * ins * wide
        return few and wide > 1 == own.dilation[1] and isinstance(self.layout, Map)

    def _suits_dots(self, own: Filter, sliding: Sliding) -> bool:
        """Whether sums of windows that are runs are computed in vectors along them."""
        return not (self.choice.exact or self.choice.variants) and own.few_for(
            sliding.high, sliding.ins
        )


def _in_turn(whole: Packed, phase: Phase) -> Packed:
    """A layer of sums over phases: the first adds the bias, the activation follows the last."""
    found = whole
    if not phase.first:
        found = replace(found, bias=found.no_bias)
    if not phase.last:
        layer = found.layer._replace(activation=Activation(NONE, 0.0, 0.0))
        found = replace(found, layer=layer)
    return found


def find_input(layer: Layer) -> Tensor | None:
    """The input of a layer of which stored rows are rows, if there is one. Sums over phases have kernels
    where rows are planes.
    """
    x = layer.inputs[0]
    if x is None or (len(x.shape) < 5 and get_operator(layer).mode(layer) is not Mode.ROWS):
        return None
    return x if x.row_axis == layer.input_axes[0] else None


def family(
    filters: Sequence[Filter],
    layout: Layout,
    parts: Callable[[Rows], list[Part]],
    together: Callable[[Rows], list[Part]] | None = None,
) -> Family:
    """That of a layer with these filters; weights are packed once. together: see `Convolution`."""
    packed: dict[tuple[int, Way], Packed] = {}

    def pack(number: int, way: Way) -> Packed:
        key = number, canonical_way(way)
        if key not in packed:
            packed[key] = filters[number].pack(key[1])
        return packed[key]

    return Convolution(tuple(filters), layout, pack, parts, together=together)


def get_bias(layer: Layer) -> np.ndarray | None:
    """Its bias, (out,)."""
    bias = layer.constants.get(2)
    return None if bias is None else bias.reshape(-1)


def convolution(layer: Layer) -> Family | None:
    """Conv; of planes line by line."""
    if find_input(layer) is None:
        return None
    layout, part, rows = choose_layout(layer)
    *_, across = spatial_windows(layer)
    weights = layer.constants[1]
    own = Filter(
        weights.reshape(*weights.shape[:2], rows.kernel, across.kernel),
        get_bias(layer),
        layer.attributes["group"],
        (rows.stride, across.stride),
        (rows.dilation, across.dilation),
        across.pad_top,
        epilogue_activation(layer),
    )
    return family([own], layout, lambda out: [part(out)])


@dataclass(frozen=True)
class _Residue:
    """Outputs o along an axis of a transposed convolution with o + pad = residue modulo the stride.

    taps: that they read with, those of earlier input first; may be empty.
    """

    residue: int
    taps: tuple[int, ...]
    stride: int
    pad: int
    dilation: int

    def among(self, start: int, stop: int) -> tuple[int, int, int]:
        """Of outputs [start, stop): the first one from `start` on, how many, and the input that the
        first tap of the first of them meets.
        """
        first = start + (self.residue - start - self.pad) % self.stride
        count = max(0, -(-(stop - first) // self.stride))
        read = (first + self.pad - self.taps[0] * self.dilation) // self.stride
        return first - start, count, read

    @property
    def between(self) -> int:
        """Inputs from a tap to the next."""
        return self.dilation // gcd(self.dilation, self.stride)


def _residues(kernel: int, stride: int, dilation: int, pad: int) -> Iterator[_Residue]:
    for residue in range(stride):
        taps = tuple(j for j in reversed(range(kernel)) if j * dilation % stride == residue)
        yield _Residue(residue, taps, stride, pad, dilation)


def transposed_convolution(layer: Layer) -> Family | None:
    """ConvTranspose, of planes line by line; None where some outputs read no input at all."""
    x = find_input(layer)
    if x is None:
        return None
    group, given = layer.attributes["group"], layer.constants[1]
    if len(given.shape) == 3:
        given = given[..., None]
    *outer, columns = (
        tuple(_residues(w.kernel, w.stride, w.dilation, w.pad_top)) for w in spatial_windows(layer)
    )
    rows: list[tuple[_Residue, ...]] = list(product(*outer))
    both = tuple(product(rows, columns))
    if not all(one.taps for axis in (*outer, columns) for one in axis):
        return None
    # (in, out / group, h, w) to (out, in / group, h, w)
    ins, outs = given.shape[0] // group, given.shape[1]
    turned = given.reshape(group, ins, outs, *given.shape[2:]).swapaxes(1, 2)
    turned = turned.reshape(group * outs, ins, *given.shape[2:])
    *high, wide = spatial_sizes(layer.output)[1:]
    width, stride = spatial_sizes(x)[-1], len(columns)
    whole = wide // stride

    def filtered(down: Sequence[_Residue], along: _Residue, start: int = 0) -> Filter:
        """Of the outputs of a row from `start` on."""
        read = ..., *np.ix_(*(one.taps for one in (*down, along)))
        taps = turned[read].reshape(*turned.shape[:2], -1, len(along.taps))
        return Filter(
            taps,
            get_bias(layer),
            group,
            (taps.shape[2] if high else 1, 1),
            (1 if high else down[0].between, along.between),
            -along.among(start, wide)[2],
            epilogue_activation(layer),
        )

    def every(number: int, down: Sequence[_Residue], first: int, count: int) -> _Every:
        lines = down[1].among(0, high[0])[1] if high else 1
        return _Every(number, down[0], first, count, stride, lines)

    def made(parts: Sequence[Sequence[_Every]]) -> Family:
        layout: Layout = Map(width)
        if high:
            layout = EachLines(width, [_lines(width, down, high[0]) for down in downs])
        return family(filters, layout, *map(_parts_of, parts))

    downs, filters = [down for down, _ in both], [filtered(*one) for one in both]
    each = [
        every(number, down, *along.among(0, wide)[:2]) for number, (down, along) in enumerate(both)
    ]
    if group > 1 or stride == 1 or not whole:
        return made([each])
    ordered = sorted(columns, key=lambda along: along.among(0, wide)[0])
    joined = [_side_by_side([filtered(down, along) for along in ordered]) for down in rows]
    if joined[0].vectors > sum(own.vectors for own in filters[:stride]):
        return made([each])
    together = [every(number, down, 0, whole) for number, down in enumerate(rows, len(filters))]
    filters += joined
    downs += rows
    for down, along in product(rows, ordered):
        first, count, _ = along.among(whole * stride, wide)
        if count:
            together.append(every(len(filters), down, whole * stride + first, count))
            filters.append(filtered(down, along, whole * stride))
            downs.append(down)
    return made([each, together])


def _lines(width: int, down: Sequence[_Residue], high: int) -> Lines:
    """What outputs of residues along planes and along lines read, and which of `high` lines they are."""
    planes, along = down
    first, count, read = along.among(0, high)
    through = Window(len(planes.taps), 1, planes.between)
    return Lines(
        width, count, through, Window(len(along.taps), 1, along.between, -read), first, along.stride
    )


@dataclass(frozen=True)
class _Every:
    """The outputs that a filter computes in every slab. number: of the filter. down: their rows, of `lines` lines each.
    first, count, stride: their columns.
    """

    number: int
    down: _Residue
    first: int
    count: int
    stride: int
    lines: int


def _parts_of(all_of: Sequence[_Every]) -> Callable[[Rows], list[Part]]:
    """The parts of a slab."""

    def parts(out: Rows) -> list[Part]:
        found = []
        for own in all_of:
            row, count, read = own.down.among(out.start, out.stop)
            made = count * own.lines
            if made and own.count:
                size = own.down.stride, own.stride
                found.append(Part(own.number, (row, own.first), size, read, made, own.count))
        return found

    return parts


def _side_by_side(filters: Sequence[Filter]) -> Filter:
    """Filters of neighbouring outputs of a row as one that computes them as channels of a pixel; a tap that one of them does
    not have is zero.
    """
    first, *_ = filters
    outs, ins, high, _ = first.shape
    read = [[k * own.dilation[1] - own.left for k in range(own.shape[3])] for own in filters]
    low, last = min(map(min, read)), max(map(max, read))
    step = gcd(*(at - low for own in read for at in own)) or 1
    shape = len(filters), outs, ins, high, (last - low) // step + 1
    weights = np.zeros(shape, first.weights.dtype)
    for k, (own, there) in enumerate(zip(filters, read, strict=True)):
        weights[k][..., [(at - low) // step for at in there]] = own.weights
    return replace(
        first,
        weights=weights.reshape(-1, *weights.shape[2:]),
        bias=None if first.bias is None else np.tile(first.bias, len(filters)),
        dilation=(first.dilation[0], step),
        left=-low,
    )


def volume_convolution(layer: Layer) -> Family | None:
    """Conv of three axes and one group, plane by plane: with more channels than the taps of a row are one run of, or
    whose windows see one plane. A plane of the output is a map, whose windows see some planes of the input. These are
    taken for channels of one map, so that Winograd's forms compute it as they do any map. Others go line by line.
    """
    x = find_input(layer)
    if x is None or len(x.shape) != 5 or layer.attributes["group"] > 1:
        return None
    through, down, across = list_windows(layer.attributes)
    if x.shape[1] <= PANEL and through.kernel > 1:
        return None
    high, columns = layer.output.shape[3:]
    own = Filter(
        layer.constants[1],
        get_bias(layer),
        1,
        (down.stride, across.stride),
        (down.dilation, across.dilation),
        across.pad_top,
        epilogue_activation(layer),
        stacked=True,
    )

    def parts(out: Rows) -> list[Part]:
        first = out.start * through.stride - through.pad_top
        return [
            Part(0, (0, 0), (1, 1), first + k * through.stride, high, columns, k)
            for k in range(len(out))
        ]

    return family([own], Planes(x.shape[4], through, down), parts)
