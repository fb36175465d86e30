"""Serving: requests join batches that run, in the server and in its simulator."""
