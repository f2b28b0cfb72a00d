"""One self-contained HTML file that shows one run, or several side by side, or any list of charts; and each chart by itself."""

from fairlead.record.report.charts import ChartSpec
from fairlead.record.report.page import Lead, Tile
from fairlead.record.report.run import RunReport
from fairlead.record.report.write import Report, charts_report, report_of, write_charts, write_report

__all__ = [
    "ChartSpec",
    "Lead",
    "Report",
    "RunReport",
    "Tile",
    "charts_report",
    "report_of",
    "write_charts",
    "write_report",
]
