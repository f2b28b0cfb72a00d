"""What a workload is like: the numbers that the workload papers print, as data, a table and chart specifications."""

from __future__ import annotations

from fairlead.workload.describe.charts import charts, facts, headlines
from fairlead.workload.describe.description import Description
from fairlead.workload.describe.measure import describe
from fairlead.workload.describe.table import render_table

__all__ = ["Description", "charts", "describe", "facts", "headlines", "render_table"]
