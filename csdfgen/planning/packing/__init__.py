"""Which offsets do items with lifetimes get, so that those alive together share no byte?"""

from csdfgen.planning.packing.first_fit import pack
from csdfgen.planning.packing.items import Items, Packing, clash, lower_bound

__all__ = ["Items", "Packing", "clash", "lower_bound", "pack"]
