"""Randomness as a function of what it is for, so that no draw depends on how many were made before it."""

from __future__ import annotations

from fairlead.kernels.jit import compiled

_MASK = 0xFFFFFFFF


@compiled
def mix(x: int) -> int:
    """A 32-bit hash with good avalanche; the multipliers stay below 2**31 so that int64 never overflows."""
    x = x & _MASK
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & _MASK
    x = x ^ (x >> 15)
    x = (x * 0x735A2D97) & _MASK
    return x ^ (x >> 15)


@compiled
def uniform(seed: int, a: int, b: int, c: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    h = mix(seed + 0x9E3779B9)
    h = mix(h ^ a)
    h = mix(h + 0x85EBCA6B + b)
    h = mix(h ^ (c + 0x27D4EB2F))
    return h / 4294967296.0
