"""How is an ONNX file read without trusting it? The stages behind `csdfgen.load`, in the order in
which they run.

onnx_file       the bytes: every length that the file claims is checked before it is used
onnx_tensor     weights, inside the file or beside it, straight into their arrays
onnx_schema     what ONNX says a node may have
onnx_graph      one flat list of operations in order: functions and constant branches inlined, dead
nodes dropped input_shapes    free sizes fixed by --shape and --batch
input_axes      along which axis the rows of an input run
folding         whatever depends on constants alone, evaluated
unsupported     every unknown operator in one error
network_builder operations to layers
batching        whether a batch may run image by image
"""
