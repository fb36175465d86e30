"""How is a network cut into phases? Slab heights, the row rule applied, the graph that follows."""
