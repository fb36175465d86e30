"""Many plans at once: which (`spec`), what of each (`point`), where (`engines`), what is kept (`cache`), and what
comes out (`table`, `picture`).
"""
