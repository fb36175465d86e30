"""How does a model of TensorFlow Lite (.tflite) become ONNX?

sparse     constants of which some elements are stored
file       tensors and operators of the flatbuffer, every size compared with the bytes that are there
values     the nodes of ONNX as they are made: quantization, and the two layouts of images
layers     what each operator computes, in nodes of ONNX
axes       of them, those that move elements or work along axes
recurrent  operators that keep a state: SVDF, UNIDIRECTIONAL_SEQUENCE_LSTM, variables
detection  TFLite_Detection_PostProcess
model      the model of the main subgraph
"""
