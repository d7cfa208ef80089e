"""For applications that have APScheduler 3: `guard` lets it run in one process at a time, and
`carry_over` makes Tenure's schedules of its jobs.

with guard(jobs, "sqlite:///app.db"):         # a BackgroundScheduler
async with guard(jobs, "sqlite:///app.db"):   # an AsyncIOScheduler
"""

from __future__ import annotations

from tenure.contrib.apscheduler.leader import ASK_AGAIN, Guard, guard
from tenure.contrib.apscheduler.move import Carried, carry_over

__all__ = ["ASK_AGAIN", "Carried", "Guard", "carry_over", "guard"]
