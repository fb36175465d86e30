"""Where do the outputs of a plan go, unless the user says so? Into the arena where that saves much.

Outputs that lie in the arena need no array beside it, and until their rows come, others lie there. The
caller may keep them: they then stay as they are, and the program goes on with another arena
(`runtime.session`). For the few scores of a classifier that is not worth it.
"""

from __future__ import annotations

from dataclasses import replace

from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.whole_layers import whole_layer_live

__all__ = ["with_result"]

_LARGE = 1 / 64
"""Part of what whole layers take from which on outputs are large: plans take a tenth of whole layers
or less, of which that is a sixth.
"""


def with_result(network: Network, options: PlanOptions) -> PlanOptions:
    """The options with what becomes of outputs settled."""
    if options.result != "auto":
        return options
    large = isinstance(network, Network) and _are_large(network)
    fits = large and network.batch == options.frames == 1
    apart = options.fast or options.tiles or options.recompute > 1
    return replace(options, result="arena" if fits and not apart else "stored")


def _are_large(network: Network) -> bool:
    return network.output_bytes >= _LARGE * whole_layer_live(network)
