"""What is wrong in paper 000, or left open? A number for each, numbered as in docs/batches.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType

import onnx

from csdfgen.paper.batches.example import EXAMPLE, IMAGES, MEMORY, plan_cost
from csdfgen.paper.batches.literal import Literal
from csdfgen.paper.batches.memory import BATCHES, MB, call_bytes, make_chain
from csdfgen.paper.batches.modelled import model_tables, plan_request
from csdfgen.paper.batches.networks import find_layer
from csdfgen.paper.batches.printed import MEMORIES
from csdfgen.paper.batches.times import model_times
from csdfgen.paper.cells import Cell
from csdfgen.reading.loader import load
from schedules.batches.baselines import largest_uniform, plan_best_uniform, plan_fixed
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.planning import PRINTED_UNIT, plan_cheapest, plan_printed, plan_within
from schedules.batches.plans import batches
from schedules.batches.replay import replay
from zoo_models import ZOO, count

GATHERING = Chain(
    (
        ChainLayer("L1", (4, 6), workspace=(2, 4), input_bytes=1, output_bytes=1),
        ChainLayer("L2", (4, 6), workspace=(0, 0), input_bytes=1, output_bytes=2),
    )
)
"""Two layers that Algorithm 1 finds no plan for in 5 bytes, though one image at a time there is one."""

MEASURED: Mapping[int, float] = MappingProxyType({1: 9.24, 2: 14.91, 3: 10.71, 4: 7.47})
"""ms an image of a fully connected layer of 9216 to 4096 in numpy, by batch: a core of a server, one thread,
measured 2026-11-21. A product of two rows copies the weights into panels, one of a row does not."""


def errata() -> Iterator[Cell]:
    """In the order of the list."""
    yield from _recurrences()
    yield from _latency_and_gain()
    yield from _memory()
    yield from _steps_and_rounds()
    yield from _networks()


def _cell(
    number: int, what: str, printed_as: float | None, ours: float, digits: int, note: str, unit: str = ""
) -> Cell:  # fmt: skip
    return Cell("errata", f"{number}. {what}", "", unit, printed_as, ours, digits, note)


def _recurrences() -> Iterator[Cell]:
    plan = plan_printed(EXAMPLE, IMAGES, MEMORY, unit=1)
    assert plan is not None
    alone = sum(set(batches(plan, number)) == {IMAGES} for number in range(len(EXAMPLE)))
    yield _cell(
        1, "layers of the example's plan that take both images at once", 3, alone, 0,
        "Table I: every layer of OPTExact takes exactly b; (1): at least one",
    )  # fmt: skip
    gathered = plan_cheapest(GATHERING, 2, 5, rounds=False, searched=0)
    assert gathered is not None and plan_printed(GATHERING, 2, 5, unit=1) is None
    yield _cell(
        2, "memory of a plan that Algorithm 1 does not find", None, replay(GATHERING, gathered).peak, 0,
        "two layers, two images, 5 bytes: images cannot wait where no layer takes both",
    )  # fmt: skip
    for images, said in ((1, 3), (2, 6)):
        yield _cell(
            3, f"example: least memory of L2 on {images}", said, EXAMPLE.layers[1].held(images), 0,
            "the initialisation uses one number for all three layers",
        )  # fmt: skip
    total = sum(
        _is_number(Literal(EXAMPLE, skipped=skip).opt(0, 2, 2, 7)) for skip in (True, False)
    )
    yield _cell(
        4, "readings of (2) with b1 = b that give the example a value", 2, total, 0,
        "only if the term is skipped; otherwise it is 0 times the undefined OPT of no images",
    )  # fmt: skip


def _is_number(value: object) -> bool:
    return value == value


def _latency_and_gain() -> Iterator[Cell]:
    accepted = plan_printed(EXAMPLE, IMAGES, MEMORY, unit=1, cost_limit=12)
    kept = plan_within(EXAMPLE, IMAGES, MEMORY, 12)
    assert accepted is not None and kept is not None
    yield _cell(
        5, "example, latency bound 12: time until a request is done", 12, accepted.cost, 0,
        f"OPTExact is a time per image; for the whole request, only {kept.images} image in {kept.cost:g} remains",
    )  # fmt: skip
    yield _cell(
        6, "60 % throughput gain: images in the same time", 1.6, 1 / (1 - 0.6), 1,
        "abstract and conclusion claim throughput, section IV defines time",
    )  # fmt: skip


def _memory() -> Iterator[Cell]:
    chain = make_chain("GoogleNet", model_times())
    two = call_bytes(find_layer("GoogleNet", "conv1/7x7_s2"), 2) / MB
    yield _cell(
        7, "baseline of GoogleNet at 20 MB", 2, largest_uniform(chain, BATCHES, 20 * MB), 0,
        f"the text says 2 images, Table III counts 1: two conv1 take {two:.1f} MB",
    )  # fmt: skip
    classifier = find_layer("GoogleNet", "loss3/classifier")
    yield _cell(
        8, "loss3/classifier without weights: free of 20 MB", 16.08,
        20 - call_bytes(classifier, weights=False) / MB, 2,
        "the paper excludes the model from memory; Table III includes the layer's weights",
        "MB",
    )  # fmt: skip


def _steps_and_rounds() -> Iterator[Cell]:
    fine = model_tables("GoogleNet", "printed")
    coarse = model_tables("GoogleNet", "printed", PRINTED_UNIT)
    least, rough = (tables.front(BATCHES)[0][0] for tables in (fine, coarse))
    yield _cell(
        9, "GoogleNet, 12 images: least memory with 2 MB steps", None, rough / MB, 2,
        f"with exact memory {least / MB:.2f}: the steps miss the plans in between", "MB",
    )  # fmt: skip
    slower = {
        memory: 100 * (coarse.cost(BATCHES, memory) / fine.cost(BATCHES, memory) - 1)
        for memory in range(rough, MEMORIES[-1] * MB + 1, MB)
    }
    worst = max(slower, key=lambda memory: slower[memory])
    yield _cell(
        9, "the same: largest slowdown by the steps", None, slower[worst], 1,
        f"at {worst / MB:g} MB; the paper says that they do not matter", "%",
    )  # fmt: skip
    image, conv1 = (
        make_chain("ResNet50", model_times()).layers[0].input_bytes,
        find_layer("ResNet50", "conv1"),
    )
    yield _cell(
        10, "ResNet50: conv1 while 11 images wait", 15, (11 * image + call_bytes(conv1)) / MB, 1,
        "the baseline runs at 15 MB only if waiting images are stored elsewhere; (2) charges them", "MB",
    )  # fmt: skip
    cut = plan_request("GoogleNet", BATCHES, 15)
    assert cut is not None and fine.cost(BATCHES, 15 * MB) == float("inf")
    yield _cell(
        10, "GoogleNet, 12 images at 15 MB: first round", 12, cut.rounds[0], 0,
        f"there is no plan for the whole request, but one in rounds of {'+'.join(map(str, cut.rounds))}",
    )  # fmt: skip
    yield from _apart()


def _apart() -> Iterator[Cell]:
    """Results of two branches that are added up, the second in memory of its own."""
    rule, apart = (
        make_chain("ResNet50", model_times(), results_apart=own) for own in (False, True)
    )
    number = [layer.name for layer in rule.layers].index("res2a")
    one, two = (chain.layers[number].held(1) / MB for chain in (rule, apart))
    memory = 25 * MB
    costs = [
        plan_cost(plan_cheapest(chain, BATCHES, memory, searched=0)) for chain in (rule, apart)
    ]
    yield _cell(
        11, "ResNet50, res2a: bytes per image after both branches", None, two, 2,
        f"{one:.2f} by the rule of special layers, which holds only if the last convolution adds in place; "
        f"at 25 MB two results cost {100 * (costs[1] / costs[0] - 1):.2f} % of time",
        "MB",
    )  # fmt: skip


def _networks() -> Iterator[Cell]:
    for side, said in ((112, 79), (224, None)):
        yield _cell(
            12, f"C3D, parameters at {side}x{side}", said, count(_c3d(side, side)).parameters / 1e6, 1,
            "101 classes as in UCF101; at 224x224 the first fully connected layer is larger",
            "M",
        )  # fmt: skip
    yield _cell(
        12, "C3D, videos of 16 frames of 320x240 in 12 GB", None, 12 * 2**30 // _bytes_of_a_video(240, 320), 0,
        "by the memory model above",
    )  # fmt: skip
    layer = ChainLayer(
        "fc", tuple(b * ms for b, ms in MEASURED.items()), (0,) * len(MEASURED), 1, 1
    )
    chain = Chain((layer,))
    largest, best = plan_fixed(chain, 2, 4), plan_best_uniform(chain, 2, 4)
    assert largest is not None and best is not None
    yield _cell(
        13, "a fully connected layer in numpy: largest batch of 2", None, largest.cost_per_image, 2,
        f"measured; {best.cost_per_image:.2f} one at a time: the largest batch that fits is not the best", "ms",
    )  # fmt: skip


def _c3d(rows: int, columns: int) -> onnx.ModelProto:
    return ZOO["c3d"].build(rows, columns, weights=False)


def _bytes_of_a_video(rows: int, columns: int) -> int:
    """What the largest convolution needs for one video, by the memory model of the images; its
    weights too.
    """
    most = 0
    for layer in load(_c3d(rows, columns)).layers:
        if layer.op_type == "Conv":
            assert layer.inputs[0] is not None
            (_, taken, *_), (_, made, *sides) = layer.inputs[0].shape, layer.output.shape
            terms = prod(layer.attributes["kernel_shape"]) * taken
            most = max(most, 4 * (prod(sides) * (taken + made + terms) + terms * made))
    return most
