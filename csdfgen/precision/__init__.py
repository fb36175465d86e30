"""In which number format is each tensor of a network stored? Ranges that real inputs show, thresholds,
the noise that each format adds, the choice within an arena, and the file that says it.

    ranges.py       what a tensor's values were, seen slab by slab
    thresholds.py   which range its integers should cover
    formats.py      the scale and zero point of a range
    calibrate.py    ranges of all tensors, from inputs
    prepare.py      the float model as it is quantized: folded, in an operator set of today
    writer.py       the model in integers: onnxruntime's tool, and formats exchanged in what it wrote
    ends.py         inputs and outputs that stay integers
    noise.py        how much noise a tensor or a weight in integers adds at the outputs
    choice.py       which tensors are worth more bytes, within an arena or above a quality
    quantize.py     all of it, from a model to a model
"""
