"""Kernels in C, and what builds them: the library of `c/`, which knows no networks.

`build` makes a shared library with the compiler of this machine, `library` calls it, `packing` puts
weights in the order that kernels read, `generate` writes the files that nobody would write by hand.
"""
