"""What does csdfgen gain on a real, trained network and a real photograph? `make demo` shows it.

CenterFace, a face detector for pictures of any size, runs in slabs of rows at two sizes; its
outputs are compared with onnxruntime's, the faces are drawn, and a table compares the memory of both.
"""
