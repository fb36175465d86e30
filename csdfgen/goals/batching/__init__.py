"""Images and rows in one memory budget: how many images of a request does each part of a network compute at once?

`cuts` lists where a network may be cut into stages, `variants` what the layers take at some slab heights or for some
images, `stages` how a request passes through the stages. `search` estimates passages with the algorithms of
`schedules.batches`, and `choice` makes plans of the best and takes one.
"""
