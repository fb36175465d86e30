"""What does a network need on a device, and how fast does it run there? Profiles, a model that predicts times from
them, and measurements.
"""
