"""Entries as celery-redbeat and django-celery-beat write them themselves, for the importers' tests.

To record them again, with an empty Redis, in an environment without Tenure:

    pip install celery-redbeat==2.4.2 django-celery-beat==2.9.0 'django==5.2.*'
    python tests/e2e/entries/record.py redis://localhost:6379/0
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent


def redbeat(url: str) -> None:
    from celery import Celery
    from celery.schedules import crontab, schedule
    from redbeat import RedBeatSchedulerEntry
    from redbeat.schedulers import ensure_conf, get_redis
    from redbeat.schedules import rrule

    app = Celery("proj", broker=url)
    app.conf.redbeat_redis_url = url
    ensure_conf(app)
    week = crontab(minute=0, hour="9,17", day_of_week="fri-mon")
    for name, when, given in (
        ("often", schedule(30), {"kwargs": {"day": 1}}),
        ("weekends", week, {"options": {"queue": "slow"}, "enabled": False}),
        ("aligned", schedule(7200, relative=True), {}),
        ("by-place", schedule(30), {"args": [1, 2]}),
        ("by-rule", rrule("DAILY", dtstart=datetime(2026, 1, 1, tzinfo=UTC)), {}),
    ):
        RedBeatSchedulerEntry(name, "proj.report", when, app=app, **given).save()
    line = get_redis(app)
    found = {key: line.hgetall(key) for key in sorted(line.scan_iter(_type="hash"))}
    _write("redbeat", found)


def django_celery_beat() -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    settings.configure(
        INSTALLED_APPS=["django_celery_beat"],
        DATABASES=databases,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    django.setup()
    call_command("migrate", verbosity=0)
    from django_celery_beat import models as m

    hours = m.IntervalSchedule.objects.create(every=2, period=m.IntervalSchedule.HOURS)
    mondays = m.CrontabSchedule.objects.create(
        minute="0", hour="7", day_of_week="1", day_of_month="1-7", timezone="Asia/Tokyo"
    )
    then = m.ClockedSchedule.objects.create(clocked_time=datetime(2099, 1, 1, tzinfo=UTC))
    dawn = m.SolarSchedule.objects.create(event="sunrise", latitude=52.5, longitude=13.4)
    for name, given in (
        ("often", {"interval": hours, "kwargs": '{"day": 1}', "headers": '{"by": "ann"}'}),
        ("mondays", {"crontab": mondays, "enabled": False, "queue": "slow"}),
        ("then", {"clocked": then, "one_off": True}),
        ("dawn", {"solar": dawn}),
        ("once", {"interval": hours, "one_off": True}),
        ("by-place", {"interval": hours, "args": "[1]"}),
    ):
        m.PeriodicTask.objects.create(name=name, task="proj.report", **given)
    call_command("dumpdata", "django_celery_beat", indent=1, output=FOLDER / "beat.json")


def _write(name: str, found: object) -> None:
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    redbeat(sys.argv[1])
    django_celery_beat()
