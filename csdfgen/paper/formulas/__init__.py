"""The formulas of the OpenCL Caffe paper of 2018 ("paper 003"): quantizers, integer arithmetic, experts, blob reuse."""
