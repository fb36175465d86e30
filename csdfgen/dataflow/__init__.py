"""What is a CSDF graph? Its values, its files, and its origin."""
