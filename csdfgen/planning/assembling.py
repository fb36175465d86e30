"""How does a draft become a plan? It is checked, and gets its figures."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import peak_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.whole_layers import whole_layer_live

__all__ = ["assemble", "outputs_beside"]


def outputs_beside(network: Network, options: PlanOptions) -> int:
    """Bytes of the outputs of a network that are arrays of the caller, beside the arena."""
    return network.output_bytes if options.result == "stored" else 0


def assemble(draft: Plan, bound: int) -> Plan:
    """The plan with its figures, checked, once firings and regions are settled. Raises what
    `checker.check` raises.

    bound: bytes that no order has a peak below with the least scratch that kernels need; what they get beyond is
    free at the time, and in no peak.
    """
    check(draft)
    network = draft.network.original or draft.network
    scratch = [size for b in draft.buffers if b.kind == "workspace" for size in b.sizes]
    figures = {
        "sum_of_tensors": sum(t.nbytes for t in network.tensors.values()),
        "whole_layer_live": whole_layer_live(network),
        "sum_of_capacities": sum(draft.regions[b.name].size for b in draft.rolling),
        "peak_live": peak_of(draft.lifetimes, draft.needs, draft.order),
        "lower_bound": bound,
        "arena": draft.planned_bytes,
        "workspace": max(scratch, default=0),
        "outputs": outputs_beside(network, draft.options),
        "parameters": network.parameter_bytes,
    }
    return replace(draft, figures=MappingProxyType(figures))
