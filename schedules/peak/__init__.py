"""Which order of firings keeps least alive at one time, and how little can any order keep?

`problem` says what an order is judged by, `bound` what no order goes below, `search` finds one. The
room knows firings, bytes and who waits for whom; no networks.
"""
