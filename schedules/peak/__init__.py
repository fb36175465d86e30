"""Which order of firings has the least peak of bytes alive, and what is a lower bound for all orders?

`problem` defines the peak of an order, `bound` computes the lower bound, and `search` finds an order. The package works
on firings, bytes and dependences, without networks.
"""
