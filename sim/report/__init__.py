"""Reports: what a user reads about a launch."""

from sim.report.content import Header
from sim.report.report import Report
from sim.report.verdict import Verdict

__all__ = ["Header", "Report", "Verdict"]
