"""HiveD (OSDI'20): tenants own cells of the cluster, and find in them what a private cluster would give."""

from fairlead.policy.hived.compiled import Hived
from fairlead.policy.hived.exact import HivedExact

__all__ = ["Hived", "HivedExact"]
