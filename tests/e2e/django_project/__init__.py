"""A Django project in the process of the tests. Its settings can be made once in a process."""

from __future__ import annotations

import secrets
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

from tests.support.servers import PostgresServer

TASKS = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
"""Django's own, or the package that has them for Django 5."""


@cache
def set_up(postgres: PostgresServer) -> None:
    """`default` is on PostgreSQL and has the schedules; `lite` is a file of SQLite."""
    url = urlsplit(postgres.create_database("django"))
    default = {
        "ENGINE": "django.db.backends.postgresql",
        "CONN_MAX_AGE": None,
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
    }
    folder = tempfile.mkdtemp(prefix="tenure-django-")
    lite = {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(folder, "lite.sqlite3")}
    settings.configure(
        DATABASES={"default": default, "lite": lite},
        INSTALLED_APPS=[
            *(f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "messages")),
            "django.contrib.sessions",
            "tenure.contrib.django",
            *(("django_tasks",) if TASKS == "django_tasks" else ()),
            "tests.e2e.django_project",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {"context_processors": _PROCESSORS},
            }
        ],
        ROOT_URLCONF="tests.e2e.django_project.urls",
        SECRET_KEY=secrets.token_hex(),
        TASKS={"default": {"BACKEND": f"{TASKS}.backends.immediate.ImmediateBackend"}},
        TIME_ZONE="Europe/Berlin",
        USE_TZ=True,
    )
    django.setup()
    call_command("migrate", verbosity=0)


_PROCESSORS: list[Any] = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
