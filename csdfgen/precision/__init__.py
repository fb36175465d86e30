"""In which number format is each tensor of a network stored? Ranges that real inputs show, thresholds,
the noise that each format adds, the choice within an arena, and the file that stores it.

    wish.py            what can be requested
    prepare.py         the float model as it is quantized: folded, in a current operator set
    folding.py         constants that weights take in
    products.py        layers with weights, and how they take in factors and offsets
    levelling.py       channels of equal reach
    calibrate.py       ranges of all tensors from inputs, and which inputs serve for what
    ranges.py          histograms of values, slab by slab; the scale and zero point of a range
    thresholds.py      which range the integers cover
    tensor_formats.py  formats of all tensors, in int8 and in int16
    writer.py          the model in integers: onnxruntime's tool, and formats exchanged in its output
    rounding.py        to which integers weights are rounded
    weights.py         weights and biases of the model in integers
    ends.py            inputs and outputs that stay integers
    noise.py           how much noise a tensor or a weight in integers adds at the outputs
    choice.py          which tensors are worth more bytes, within an arena or above a quality
    timing.py          which tensors are worth more time
    variants.py        formats in which layers are timed
    quantize.py        all of it, from a model to a model
"""
