"""Which variant of a kernel, and which slab height, is the fastest here? Measured on this machine.

`measure` times a network's layers in frames, `file` keeps what was found by layer shape, `use` turns
it into variants and predicted times for plans.
"""
