"""What devices have in common, whatever drives them: kernels, written in what OpenCL and CUDA share, and launches."""
