"""Synthetic kernels, a file a subject; each workload is a function that returns a ready `Launch`.

The kernels are written as a CUDA student writes them, and a workload's sizes are
its arguments. `launch.check(report)` compares the simulated result with NumPy.
"""
