"""A device of OpenCL: its driver, and the launches of a program."""
