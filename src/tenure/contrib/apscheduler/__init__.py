"""For applications that have APScheduler 3: `guard` lets it run in one process at a time.

with guard(jobs, "sqlite:///app.db"):         # a BackgroundScheduler
async with guard(jobs, "sqlite:///app.db"):   # an AsyncIOScheduler
"""

from __future__ import annotations

from tenure.contrib.apscheduler.leader import ASK_AGAIN, Guard, guard

__all__ = ["ASK_AGAIN", "Guard", "guard"]
