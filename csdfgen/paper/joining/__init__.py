"""Paper 001: H. Zhao, X. Liu, J. Zheng and J. He, "Layered Batch Inference Optimization Method for Convolutional Neural Networks
Based on CPU" (ANIT 2023, pages 182-189): layer-to-layer batching in a running server.
"""
