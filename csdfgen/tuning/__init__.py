"""Which variant of a kernel, and which slab height, is the fastest on this machine?

`measure` times the layers of a network in frames; `file` keeps the times by layer shape and turns them into
variants and predicted times for plans.
"""
