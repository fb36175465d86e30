"""Paper 000 (variable batch size across layers), reproduced: its networks, its memory, its tables."""
