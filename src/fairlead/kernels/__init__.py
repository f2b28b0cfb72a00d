"""The compiled inner loops over arrays; the only importer of numba."""
