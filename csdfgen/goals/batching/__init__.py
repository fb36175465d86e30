"""Images and rows in one memory budget: which parts of a network work on how many images of a request at once?

`cuts` says where a network may be cut into stages, `variants` what the layers take at some slab heights or on
some images, `stages` how a request passes through stages, `chains` what the algorithms of `schedules.batches`
see of it, `search` which plans are worth making, `choice` which one is taken.
"""
