"""How much scratch does each firing need? What a backend declares for its step, before placement.

A declaration depends on the structure of the phase (`kernels.steps.demands`) and on where its rows
lie relative to each other in their buffers: where a rolling buffer wraps, and how far apart operand
and result are if they share one. Firings that agree in these are declared once.
"""

from __future__ import annotations

import numpy as np

from csdfgen.kernels.steps import Scratchpad
from csdfgen.planning.addressing import Addresses
from csdfgen.planning.placement import Region

__all__ = ["Declarations"]


class Declarations:
    """TEMP"""

    def __init__(self, conversion, sharing, buffers, kernels, limit=None):
        self.c, self.s, self.b, self.k, self.limit = conversion, sharing, buffers, kernels, limit

    def sizes(self):
        regions, total = {}, {}
        for b in self.b:
            rows = np.arange(b.rows)
            born = np.zeros(b.rows, int)
            for part in b.parts[:1]:
                born = np.searchsorted(np.array(part.writers[0].rows), rows, side="right")
            block = np.cumsum(np.diff(born, prepend=-1) != 0) if not b.scattered else rows
            table = rows * b.row_bytes - 2 * (block * (b.row_bytes * 40 + 64))
            table = (table - table.min()).tolist()
            regions[b.name] = Region(b.name, 0, b.row_bytes, b.rows, tuple(table), b.name)
            total[b.name] = max(table) + b.row_bytes + 64
        addresses = Addresses(self.s, regions)
        found = {}
        for w in self.c.actors:
            if w.layer is None or w.name in self.s.silent:
                continue
            out = []
            for i in range(len(w.phases)):
                step = addresses.step(w, i, 0, Scratchpad("", 0, 0))
                out.append(self.k.workspace(step, total, self.limit))
            if any(out):
                found[w.name] = np.array(out)
        return found
