"""The twin beside the live cluster: what is to be expected, why a job waits, and what another choice would bring.

All of it is the live core, built anew from where every job stands and run on with a clock of its own (decision 8). Nothing here
changes anything: a Moment goes in, an answer comes out, so that it may run in another thread than the scheduler.
docs/twin.md says what is assumed of jobs whose length nobody knows, and how far to trust the answers.
"""

from fairlead.runtime.twin.compare import Choice, Row, whatif, whatif_rows
from fairlead.runtime.twin.foresee import Expected, Forecast, Outlook, forecast
from fairlead.runtime.twin.moment import Moment, moment_of
from fairlead.runtime.twin.why import Explanation, explain

__all__ = [
    "Choice",
    "Expected",
    "Explanation",
    "Forecast",
    "Moment",
    "Outlook",
    "Row",
    "explain",
    "forecast",
    "moment_of",
    "whatif",
    "whatif_rows",
]
