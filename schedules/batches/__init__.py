"""Which layer should take how many images at once, in so much memory?

`chain` says what is chosen for and `plans` what is chosen; `tables` is the dynamic program of paper 000
(variable batch size), as printed and with what it misses, `exact` the search over all orders, `planning`
what to ask. `replay` checks a plan without knowing any of them. The room knows layers, images and bytes;
no operators and no files.
"""
