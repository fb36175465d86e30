"""What is a network? Tensors, layers, rows: values only, which nothing below them changes."""
