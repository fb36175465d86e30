"""The tables, claims and examples of paper 003 (OpenCL Caffe, 2018), computed and compared with what is printed."""
