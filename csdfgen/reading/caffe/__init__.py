"""How does a network of Caffe (.prototxt with .caffemodel) become ONNX?

text     the text format of protobuf: messages whose fields are asked for by name and type
weights  the blobs of a .caffemodel, by layer
layers   what each type of layer computes, in nodes of ONNX
net      the layers of the test phase in order, and the model of them
"""
