"""A plan as C: the tables of its native instructions as source, the kernels that they name, and the files that build them.

`tables` turns instructions into initialisers, `order` lists the tasks of a frame, `kernels` finds the files of kernels,
`source` writes NAME.c and NAME.h, `project` the files around them, `emit` the folder.
"""
