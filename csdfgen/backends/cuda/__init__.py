"""A device of CUDA: its driver, and NVRTC, which compiles kernels."""
