"""What is a CSDF graph? Its values, its files, and where it came from."""
