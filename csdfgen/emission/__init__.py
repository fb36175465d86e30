"""A plan as C: the tables of its native steps as source, the kernels that they name, and what builds
them.

`tables` turns structures with addresses into initialisers, `ports` says how the caller's arrays and the
arena exchange rows, `kernels` finds the files of kernels, `source` writes NAME.c and NAME.h,
`project` what is around them, `emit` the folder.
"""
