"""What throughput do GPU and CPUs of a Jetson TX2 reach together, by its measured times of layers, and what is printed?

Minakova, Tang and Stefanov measured networks on a TX2, layer by layer: TensorRT on the GPU, ARM Compute Library on a CPU of each
kind ("Combining task- and data-level parallelism for high-throughput CNN inference on embedded CPUs-GPUs MPSoCs", SAMOS 2020).
Their files have no licence, so that a folder of them is given: of each network `eval.json`, in milliseconds, and
`task_graph.json`. A mapping is searched as for `csdfgen run --map auto`, and its dataflow graph analysed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.errors import InputError
from csdfgen.files import load_json
from csdfgen.goals.mapping_search import Search
from csdfgen.goals.throughput import graph_period
from csdfgen.paper.cells import Cell, Left, Progress
from csdfgen.paper.printed import TABLE_3
from csdfgen.tuning.processors import Times

SOURCE = "github.com/SvetlanaMinakova/high_throughput_cnns, commit 8ce7e18, input_examples/high_throughput"

PROCESSORS = "GPU", "large_CPU", "large_CPU", "small_CPU", "small_CPU", "small_CPU"
"""Those of a TX2 that the authors map tasks to, which copy a byte in `_COPYING` seconds."""

_COPYING = 1 / 20_000e6

_ZOO = {"resnet18v1": "resnet18", "yolov2": "tiny_yolo_v2", "inceptionv1": "inception_v1", "vgg19caffe9": "vgg19"}  # fmt: skip

_EXAMPLE = "mnist"
"""The example of their tool, which is none of the networks of their paper."""


def reproduce(
    tables: Path | None, progress: Progress
) -> tuple[dict[str, Sequence[Cell]], Sequence[Left]]:
    """The cells of all networks of a folder, or what is left out without one. Raises InputError for other files."""
    if tables is None:
        why = f"give --tables FOLDER, of files without a licence: {SOURCE}"
        return {}, (Left("TX2", "CPUs and GPU together", len(TABLE_3), why),)
    cells, gains = list[Cell](), list[float]()
    for folder in sorted(one.parent for one in tables.rglob("task_graph.json")):
        progress(folder.name)
        cells += _cells(folder)
        gains += [cells[-1].ours] * (folder.name != _EXAMPLE)
    if not gains:
        raise InputError(f"{tables}: no folder has task_graph.json and eval.json; {SOURCE} do")
    note = f'their README: "~20% higher throughput", of networks that it does not name; without {_EXAMPLE}'
    return {"TX2": [*cells, Cell("TX2", "mean", "gain", "%", 20, mean(gains), 0, note, 1)]}, ()


def _cells(folder: Path) -> Iterator[Cell]:
    """One network on a processor of each kind alone, and mapped."""
    graph, times = (load_json(str(folder / name)) for name in ("task_graph.json", "eval.json"))
    try:
        search = read_search(graph, times)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{folder}: its files have no times of tasks: {error!r}") from None
    printed = {"GPU": TABLE_3.get(_ZOO.get(folder.name, folder.name), (None,) * 4)[3]}
    alone = {name: 1 / sum(one) for name, one in zip(PROCESSORS, search.times.seconds, strict=True)}
    for name, rate in alone.items():
        note = "printed: tau_DL of paper 002, a model" if printed.get(name) else ""
        yield Cell("TX2", folder.name, name, "fps", printed.get(name), rate, 1, note)
    found = search.find()
    chosen = [found.mapping[names[0]] for names in search.times.units]
    rate, note = (
        1 / graph_period(build_parts_graph(search, chosen)),
        f"at most {1 / found.bound:.1f}",
    )
    yield Cell("TX2", folder.name, "mapped", "fps", None, rate, 1, note)
    yield Cell("TX2", folder.name, "gain", "%", None, 100 * (rate / alone["GPU"] - 1), 1)


def read_search(graph: Any, times: Any) -> Search:
    """The search for a network of tasks. The GPU's times are rows of TensorRT, which merges layers: as the authors count them,
    the first task of a row has its time, and the others none.
    """
    jobs, sizes, many = graph["jobs_per_task"], graph["tasks_out_comm_cost"], len(PROCESSORS)
    gpu, task = [0.0] * len(jobs), 0
    for row, ms in zip(times["layers"], times["GPU"], strict=True):
        words = (rf"(?<![a-z0-9])({'|'.join(map(re.escape, some))})(?![0-9])" for some in jobs)
        task = next((k for k, one in enumerate(words) if re.search(one, row, re.I)), task)
        gpu[task] += ms
    of_kind = {**times, "GPU": gpu}
    seconds = tuple(tuple(1e-3 * of_kind[one][k] for k in range(len(jobs))) for one in PROCESSORS)
    names = tuple((name,) for name in graph["tasks"])
    reads = [
        [(k, str(k), 4 * sizes[k]) for k in some] for some in graph["tasks_reverse_adjacent_list"]
    ]
    known = Times(names, seconds, (_COPYING,) * many, (0.0,) * many)
    return Search(known, reads, [(0, 0)] * len(jobs), True, (None,) * many)


def build_parts_graph(search: Search, chosen: Sequence[int]) -> CsdfGraph:
    """The graph of the parts of a mapping: a processor fires its own in turn, what crosses has a slot for the next frame."""
    parts, behind = search.list_parts(chosen)
    name = {key: f"{PROCESSORS[key[1]]} {key[1]}, level {key[0]}" for key in sorted(parts)}
    data = [(a, b) for b, sources in behind.items() for a in sources]
    found = [(a, b, b[0] - a[0]) for a, b in data] + [(b, a, 1) for a, b in data]
    for processor in {own for _, own in name}:
        mine = [key for key in name if key[1] == processor]
        found += [(a, b, int(b == mine[0])) for a, b in zip(mine, mine[1:] + mine[:1], strict=True)]
    actors = (Actor(one, (round(1e9 * parts[key]),)) for key, one in name.items())
    channels = (
        Channel(f"{k}", name[a], name[b], (1,), (1,), tokens)
        for k, (a, b, tokens) in enumerate(found)
    )
    return CsdfGraph("mapped", tuple(actors), tuple(channels))
