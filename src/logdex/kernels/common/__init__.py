"""Kernels for both formats: memory access, checksums, native libraries."""
