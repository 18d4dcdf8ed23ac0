"""Numba kernels: flat loops over arrays and addresses, no objects. Each has a plain twin and a test that both agree."""
