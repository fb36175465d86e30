"""Which firings, which buffers, where? From phases to a checked plan in one arena."""
