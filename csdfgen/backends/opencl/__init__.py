"""Kernels of a device, written in what OpenCL and CUDA have in common."""
