"""Who computes? The backends, each in a folder of its own, and the registry of their names."""
