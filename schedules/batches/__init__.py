"""Which layer should compute how many images at once, within a memory?

`chain` describes the layers and `plans` the choice; `tables` is the dynamic program of paper 000 (variable batch size),
as printed and corrected, `exact` the search over all orders, and `planning` the entry. `replay` checks a plan
independently of them. The package works on layers, images and bytes, without operators and files.
"""
