"""Traces in and out, generators, cluster files, profiles."""
