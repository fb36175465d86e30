"""What is a plan to be good for? Slab heights by a goal, plans under a budget, and all that are not
dominated.

Above `planning`, which plans for given heights, and `devices`, which know what time these take.
"""
