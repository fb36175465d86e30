"""Which layers' weights may take more bytes than they have? Those that save the most time for their bytes.

Winograd's forms of a convolution take fewer multiplications with weights of two to four times the bytes. Early layers
have large maps and few weights, and gain most; late ones have many weights and small maps. Each layer's forms are on a
curve of time over bytes; the steps along all curves are taken from the best ratio on, as long as a step is worth its
bytes to the default (bytes * seconds^2 decrease) and all together stay within `GROWTH` of what the weights and whole
layers take. With the goal speed every layer takes the form that is estimated to be the fastest; with the goal memory,
and for machines with constants in flash, none takes a larger one. Costs are estimates from sizes alone, so that every
machine chooses the same.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from csdfgen.goals.heights import TIME, Choice, find_bends
from csdfgen.model.options import PlanOptions, ways_text
from csdfgen.phases.heights import layer_height, parse_rows
from csdfgen.planning.lifetimes import whole_layer_live
from csdfgen.planning.prepared import Prepared, multiplications

GROWTH, SAVED = 0.04, 0.5
"""Bytes that packed weights may take beyond those of the model, at most: these parts of weights and whole layers together,
and of whole layers, so that no network takes more than these.
"""

RAISED = 2
"""Rows of a slab, at least, where heights of one row are raised."""

SMALL = 2**20
"""Bytes of whole layers below which the workspace that weights at points cannot do without would be more than the rows."""


def price_constants(prepared: Prepared) -> PlanOptions:
    """The options with the layers whose weights take a larger form, as `PlanOptions.ways` has them."""
    options, network = prepared.options, prepared.network
    live = whole_layer_live(network)
    whole = network.parameter_bytes + live
    room = min(GROWTH * whole, SAVED * live)
    if options.goal == "speed":
        room = inf
    elif options.goal == "memory" or not options.weighs_parameters or live < SMALL:
        room = 0.0
    if options.ways or options.exact or not room:
        return options
    spec = parse_rows(options.rows)
    curves = {}
    for layer in network.layers:
        rows, total = layer_height(spec, layer)
        likely = max(min(RAISED, total), rows if isinstance(rows, int) else min(rows))
        forms = prepared.kernels.forms_of(layer, likely)
        if forms:
            curves[layer.name] = [Choice(one.word, one.work, one.work, one.bytes) for one in forms]
    picks = {name: curve[0] for name, curve in curves.items()}
    least = 0.0 if room == inf else multiplications(network) / TIME / whole
    steps = [(price, name, at) for name, curve in curves.items() for price, at in find_bends(curve)]
    for price, name, at in sorted(steps, key=lambda one: (-one[0], one[1])):
        grown = curves[name][at].bytes - picks[name].bytes
        if price >= least and grown <= room:
            picks[name], room = curves[name][at], room - grown
    return replace(
        options, ways=ways_text({name: {1: one.rows} for name, one in picks.items() if one.rows})
    )
