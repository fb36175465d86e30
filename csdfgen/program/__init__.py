"""What does a backend have to say? A set of kernels: which layers it computes, the workspace that it
needs for a step, and the calls that compute it.
"""
