"""Kernels that both formats use: memory access, checksums, finding native libraries."""
