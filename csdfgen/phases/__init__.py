"""How is a network divided into phases? By slab heights and the row rule; the CSDF graph follows from these."""
