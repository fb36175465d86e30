"""Which plan meets a goal? Slab heights for a goal, plans within budgets, and the Pareto front of memory and time.

This package is above `planning`, which makes plans at given heights, and `devices`, which predicts their times.
"""
