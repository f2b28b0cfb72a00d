"""One self-contained HTML file that shows one run, or several side by side, or any list of charts."""

from fairlead.record.report.charts import ChartSpec
from fairlead.record.report.run import RunReport
from fairlead.record.report.write import write_charts, write_report

__all__ = ["ChartSpec", "RunReport", "write_charts", "write_report"]
