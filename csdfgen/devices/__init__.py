"""What will a network need on a device, and how fast will it run there? Profiles, a model over
them, measurements.
"""
