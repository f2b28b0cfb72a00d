"""What the papers claim, measured again: one file per claim, each a function from `Ask` to `Result`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.sim.claims import (
    claim_1,
    claim_2,
    claim_3,
    claim_4,
    claim_5,
    claim_6,
    claim_7,
    claim_11,
    claim_12,
    claim_13,
    claim_14,
    claim_19,
    claim_20,
    claim_21,
    claim_22,
)
from fairlead.sim.claims.result import Ask, Figure, Result

#: by the number it has in the project's table of claims
CLAIMS: Mapping[int, Callable[[Ask], Result]] = {
    1: claim_1.measure,
    2: claim_2.measure,
    3: claim_3.measure,
    4: claim_4.measure,
    5: claim_5.measure,
    6: claim_6.measure,
    7: claim_7.measure,
    11: claim_11.measure,
    12: claim_12.measure,
    13: claim_13.measure,
    14: claim_14.measure,
    19: claim_19.measure,
    20: claim_20.measure,
    21: claim_21.measure,
    22: claim_22.measure,
}

__all__ = ["CLAIMS", "Ask", "Figure", "Result"]
