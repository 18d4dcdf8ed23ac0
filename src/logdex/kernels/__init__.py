"""Numba kernels: flat loops over arrays and addresses. Each has a plain twin, and a test compares
the two. Importing them does not import Numba (`logdex.kernels.compiled`)."""
