"""Which ONNX nodes become one layer? Rewritings of a network into an equal one."""
