"""What HiveD's own tests ask for and get, as facts: pods, groups, and where each pod goes on its design configuration.

From microsoft/hivedscheduler, hived_algorithm_test.go (MIT). The configuration itself is in the shared data.
"""

from __future__ import annotations

from typing import Any

_16 = list(range(16))
_DGX2, _P100, _PIN = "DGX2-V100", "DGX1-P100", "VC1-YQW-DGX2"

#: group: (pods, GPUs of each) ...
GROUPS: dict[str, tuple[tuple[int, int], ...]] = {
    **{f"group{i}": ((1, 1),) for i in (1, 2, 4, 6, 10)},
    "group3": ((1, 8),), "group7": ((3, 8),), "group8": ((1, 8),), "group9": ((1, 7), (1, 5)),
    **{f"group{i}": ((2, 16),) for i in (5, 11, 12, 13, 14, 18, 19, 24, 26, 27)},
    **{f"group{i}": ((1, 2),) for i in (15, 16, 17)},
    **{f"group{i}": ((1, 16),) for i in (20, 21, 22, 23, 25, 28, 30, 31, 32, 33, 34)},
    "group29": ((4, 16),),
}  # fmt: skip

#: pod: VC, priority, lazy, pinned cell, GPU type, GPUs, group
_PODS: dict[int, tuple[str, int, bool, str, str, int, int]] = {
    1: ("VC1", 0, True, "", _DGX2, 1, 1),
    2: ("VC1", 1, True, "", _DGX2, 1, 2),  # buddy of pod 1
    3: ("VC1", 2, True, "", _DGX2, 8, 3),  # preempts nobody, so not beside them
    4: ("VC1", -1, True, "", _DGX2, 1, 4),  # opportunistic: away from guaranteed ones
    5: ("VC1", 1, True, _PIN, _DGX2, 16, 5),
    6: ("VC1", 1, True, _PIN, _DGX2, 16, 5),
    7: ("VC2", 1, True, "", _P100, 8, 7),  # the VC has too few cells: waits
    8: ("VC2", 1, True, "", "", 7, 9),  # any type of GPU, pods of different sizes
    9: ("VC2", 1, True, "", "", 5, 9),
    10: ("VC2", 1, True, "", _DGX2, 1, 6),  # a type that the VC does not have
    11: ("VC2", 1, True, "", _P100, 2, 8),  # its group has no such pod
    12: ("VC2", 1, True, "", _P100, 2, 8),
    13: ("surprise!", 1, True, "", _P100, 1, 10),
    14: ("VC2", 1, True, "surprise!", _P100, 1, 10),
    15: ("VC2", 1001, True, "", _P100, 1, 10),
    16: ("VC1", 2, True, _PIN, _DGX2, 16, 11),  # preempts pods 5 and 6
    17: ("VC1", 2, True, _PIN, _DGX2, 16, 11),
    18: ("VC1", 1, True, "", _DGX2, 16, 12),
    19: ("VC1", 1, True, "", _DGX2, 16, 12),
    20: ("VC1", 1, True, "", _DGX2, 16, 13),
    21: ("VC1", 1, True, "", _DGX2, 16, 13),
    22: ("VC1", -1, True, "", _DGX2, 16, 14),
    23: ("VC1", -1, True, "", _DGX2, 16, 14),
    24: ("VC2", 0, True, "", "CT1", 2, 15),  # lazily preempted by pod 25
    25: ("VC2", 1, False, "", "CT1", 2, 16),
    26: ("VC2", 2, False, "", "CT1", 2, 17),  # preempts pod 25 at once
    27: ("VC1", 1, False, _PIN, _DGX2, 16, 18),
    28: ("VC1", 1, False, _PIN, _DGX2, 16, 19),
    29: ("VC1", 2, True, _PIN, _DGX2, 16, 20),  # preempts pod 28
    30: ("VC1", 1, True, _PIN, _DGX2, 16, 21),  # waits: pod 28 is still there
    31: ("VC1", 2, True, _PIN, _DGX2, 16, 22),  # preempts pod 28, on the other node
    32: ("VC1", 2, True, _PIN, _DGX2, 16, 23),  # waits: 29 and 31 have it all
    33: ("VC1", 3, True, _PIN, _DGX2, 16, 24),  # takes over from 29 and 31
    34: ("VC1", 4, False, _PIN, _DGX2, 16, 25),  # takes over from 33, and starts, pod 28 being gone
    35: ("VC1", 5, True, _PIN, _DGX2, 16, 26),  # preempts pod 34, and is deleted before that is done
    36: ("VC1", -1, True, "", "", 1, 1),
    37: ("VC1", 1, True, _PIN, _DGX2, 1, 1),
    38: ("VC1", 1, True, _PIN, _DGX2, 1, 2),
    39: ("VC1", 1, True, "", _DGX2, 16, 27),
    40: ("VC1", 1, True, "", _DGX2, 16, 28),
    41: ("VC1", 2, True, "", _DGX2, 16, 29),
    42: ("VC1", 0, True, "", _DGX2, 16, 30),
    43: ("VC2", 0, True, "", _DGX2, 16, 31),
    44: ("VC1", 0, True, "", _DGX2, 16, 32),
    45: ("VC1", 0, True, "", _DGX2, 16, 33),
    46: ("VC1", 0, True, "", _DGX2, 16, 34),
}

_BIND: dict[int, tuple[str, list[int]]] = {
    1: ("0.0.1.0", [0]),
    2: ("0.0.1.0", [1]),
    3: ("0.0.1.0", [8, 9, 10, 11, 12, 13, 14, 15]),
    4: ("0.0.5.0", [0]),
    5: ("0.0.3.0", _16),
    6: ("0.0.3.1", _16),
    8: ("1.0.0.0", [1, 3, 4, 7, 0, 2, 6]),
    9: ("1.0.0.2", [0, 1, 2, 3, 4]),
    18: ("0.0.3.2", _16),
    19: ("0.0.3.3", _16),
    20: ("0.0.4.0", _16),
    21: ("0.0.4.1", _16),
    22: ("0.0.4.2", _16),
    23: ("0.0.4.3", _16),
    24: ("0.0.0.1", [0, 1]),
    25: ("0.0.0.0", [0, 1]),
    28: ("0.0.3.0", _16),
    34: ("0.0.3.0", _16),
    36: ("0.0.1.0", [0]),
    37: ("0.0.3.0", [0]),
    38: ("0.0.3.1", [0]),
    39: ("0.0.3.2", _16),
    40: ("0.0.4.3", _16),
    44: ("0.0.3.2", _16),
    45: ("0.0.4.2", _16),
}


def _names(*numbers: int) -> list[str]:
    return [f"pod{number}" for number in numbers]


CASES: dict[str, Any] = {
    "affinity_groups": {
        name: [{"pods": pods, "gpus_per_pod": gpus} for pods, gpus in members] for name, members in GROUPS.items()
    },
    "pods": {
        f"pod{number}": {
            "vc": vc,
            "priority": priority,
            "lazy_preemption": lazy,
            "pinned_cell": pinned,
            "leaf_cell_type": kind,
            "leaf_cells": gpus,
            "group": f"group{group}",
            "ignore_suggested_nodes": None,
            "multi_chain_relax": None,
        }
        for number, (vc, priority, lazy, pinned, kind, gpus, group) in _PODS.items()
    },
    "should_succeed": _names(1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25),
    "should_fail_user_error": [_names(10), _names(11, 12), _names(13), _names(14), _names(15)],
    "should_be_lazy_preempted": _names(8, 9, 20, 21, 24),
    "stateful_preemption": _names(28, 29, 30, 31, 32, 33, 34, 35),
    "expected_bind": {f"pod{number}": {"node": node, "gpus": gpus} for number, (node, gpus) in _BIND.items()},
    "expected_preempt_victims": {
        "pod16": _names(5, 6),
        "pod17": _names(5, 6),
        "pod26": _names(25),
        "pod29": _names(28),
        "pod31": _names(28),
        "pod33": _names(28),
        "pod35": _names(34),
    },
    "deleted_preemptor_groups": {"pod33": ["group20", "group22"], "pod34": ["group24"], "pod35": ["group26"]},
}
