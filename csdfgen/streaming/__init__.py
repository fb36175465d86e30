"""Where do the rows of a stream come from, and where do they go? Files that are read and written row by row."""
