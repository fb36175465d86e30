"""In which number format is each tensor of a network stored? Ranges that real inputs show, thresholds,
the noise that each format adds, the choice within an arena, and the file that says it.

    wish.py            what can be asked for
    prepare.py         the float model as it is quantized: folded, in an operator set of today
    folding.py         constants that weights take in
    products.py        layers with weights, and how they take in factors and offsets
    levelling.py       channels that reach as far as each other
    samples.py         which inputs are looked at for what
    ranges.py          what a tensor's values were, seen slab by slab
    calibrate.py       ranges of all tensors, from inputs
    thresholds.py      which range its integers should cover
    useful.py          which values of a tensor nobody tells apart
    formats.py         the scale and zero point of a range
    tensor_formats.py  formats of all tensors, in int8 and in int16
    writer.py          the model in integers: onnxruntime's tool, and formats exchanged in what it wrote
    rounding.py        to which integers weights are rounded
    weights.py         weights of the model in integers: rounded anew, or with 16 bits
    biases.py          how fine biases are beside 16 bits
    ends.py            inputs and outputs that stay integers
    noise.py           how much noise a tensor or a weight in integers adds at the outputs
    choice.py          which tensors are worth more bytes, within an arena or above a quality
    timing.py          which tensors are worth more time
    variants.py        formats in which layers are timed
    quantize.py        all of it, from a model to a model
"""
