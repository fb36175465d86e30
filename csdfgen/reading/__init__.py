"""How is an ONNX file read without trusting it? The steps behind `csdfgen.load`, in the order in
which they run.

onnx_file       the bytes: every length that the file claims is checked before it is used
onnx_tensor     weights, inside the file or next to it, straight into their arrays
onnx_schema     what ONNX allows a node to have
onnx_graph      one flat list of operations in order: functions and constant branches are inlined, dead
                nodes are dropped
dequantized     patterns of quantized models become operations on integers
fixed           inputs become constants by --fix
input_shapes    free sizes are fixed by --shape and --batch; row axes of the inputs
folding         operations of constants alone are evaluated
network_builder operations to layers; every unknown operator in one error
heights         constants of an export of one height follow another one
batching        whether a batch may run image by image
image_axes      where its images are once they have left axis 0
"""
