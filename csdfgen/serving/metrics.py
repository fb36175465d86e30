"""What does an operator watch? Counters, gauges and histograms of all models, in Prometheus' text format.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from csdfgen.serving.engine import LATENCIES, Engine

_GAUGES: Mapping[str, tuple[str, Callable[[Engine], float]]] = {
    "csdfgen_waiting_images": ("Images that wait.", lambda one: one.waiting),
    "csdfgen_running_images": ("Images that have begun.", lambda one: one.running),
    "csdfgen_arena_bytes": (
        "Bytes of the arenas of all workers.",
        lambda one: one.service.workers * one.service.arena_bytes,
    ),
    "csdfgen_slot_bytes": ("Bytes of images between stages.", lambda one: one.service.slot_bytes),
}

_OUTCOMES = ("answered", "refused", "cancelled", "failed")


def exposition(engines: Mapping[str, Engine], failed: Mapping[str, int]) -> str:
    """The text for all models. failed: how often each could not be read again, "" for their folder."""
    return "\n".join(
        [*_lines(dict(engines)), *_failures({**dict.fromkeys(engines, 0), **failed}), ""]
    )


def _failures(failed: Mapping[str, int]) -> Iterator[str]:
    name = "csdfgen_reload_failures_total"
    yield from _head(name, "counter", "Models, and their folder, that could not be read again.")
    yield from (f'{name}{{model="{model}"}} {count}' for model, count in failed.items())


def _lines(engines: Mapping[str, Engine]) -> Iterator[str]:
    yield from _head("csdfgen_requests_total", "counter", "Requests that are over, by outcome.")
    for name, one in engines.items():
        for outcome in _OUTCOMES:
            yield f'csdfgen_requests_total{{model="{name}",outcome="{outcome}"}} {one.counts[outcome]}'
    for metric, key, text in (
        ("csdfgen_images_total", "images", "Images of all requests."),
        ("csdfgen_late_total", "late", "Answers behind their deadlines."),
        ("csdfgen_stages_total", "stages", "Runs of stages."),
    ):
        yield from _head(metric, "counter", text)
        for name, one in engines.items():
            yield f'{metric}{{model="{name}"}} {one.counts[key]}'
    for metric, (text, value) in _GAUGES.items():
        yield from _head(metric, "gauge", text)
        for name, one in engines.items():
            yield f'{metric}{{model="{name}"}} {value(one)}'
    yield from _head("csdfgen_batch_images", "histogram", "Images of a batch in the last stage.")
    for name, one in engines.items():
        sizes = dict(sorted(one.batches.items()))
        total = 0
        for size in range(1, one.service.most + 1):
            total += sizes.get(size, 0)
            yield f'csdfgen_batch_images_bucket{{model="{name}",le="{size}"}} {total}'
        yield f'csdfgen_batch_images_bucket{{model="{name}",le="+Inf"}} {total}'
        yield f'csdfgen_batch_images_sum{{model="{name}"}} {sum(b * n for b, n in sizes.items())}'
        yield f'csdfgen_batch_images_count{{model="{name}"}} {total}'
    yield from _head("csdfgen_latency_seconds", "histogram", "From arrival to answer.")
    for name, one in engines.items():
        total = 0
        for end, count in zip((*LATENCIES, "+Inf"), list(one.latencies), strict=True):
            total += count
            yield f'csdfgen_latency_seconds_bucket{{model="{name}",le="{end}"}} {total}'
        yield f'csdfgen_latency_seconds_sum{{model="{name}"}} {one.latency_sum:.9g}'
        yield f'csdfgen_latency_seconds_count{{model="{name}"}} {total}'


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
