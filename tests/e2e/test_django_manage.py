"""`manage.py` in a small project of its own: isolated tasks, commands that start nothing, hints."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tenure import Scheduler
from tests.e2e.apps import serving, until

MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "conf")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
CONF = """
from pathlib import Path
SECRET_KEY = "only for this test"
DEBUG = True
ROOT_URLCONF = "urls"
WSGI_APPLICATION = "wsgi.application"
FILE = Path(__file__).with_name("shop.sqlite3")
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FILE}}
INSTALLED_APPS = ["jobs", "tenure.contrib.django"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TENURE = {"CONCURRENCY": 2, "NAMESPACE": "shop"}
"""
WSGI = """
from django.core.wsgi import get_wsgi_application
from tenure.contrib.django import start_with_runserver
application = get_wsgi_application()
start_with_runserver()
"""
MODELS = """
from django.db import models
class Order(models.Model):
    done = models.BooleanField(default=False)
"""
TASKS = """
import os
from jobs.models import Order
from tenure.contrib.django import task

@task(isolate=True)
def alone():
    return [os.getpid(), Order.objects.count()]
"""
MIGRATION = """
from django.db import migrations, models
class Migration(migrations.Migration):
    initial = True
    operations = [migrations.CreateModel("Order", [
        ("id", models.BigAutoField(primary_key=True, serialize=False)),
        ("done", models.BooleanField(default=False)),
    ])]
"""


def manage(folder: Path, *arguments: str, fails: bool = False) -> str:
    """What a command says, on both streams."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert bool(done.returncode) is fails, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in {
        "manage.py": MANAGE,
        "conf.py": CONF,
        "urls.py": "urlpatterns = []\n",
        "wsgi.py": WSGI,
        "jobs/__init__.py": "",
        "jobs/models.py": MODELS,
        "jobs/tasks.py": TASKS,
        "jobs/migrations/__init__.py": "",
        "jobs/migrations/0001_initial.py": MIGRATION,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    manage(folder, "migrate", "-v", "0")
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    """Its tables exist, by `migrate`."""
    return Path(shutil.copytree(template, tmp_path / "shop"))


@pytest.mark.parametrize(
    "command", [("tenure", "run"), ("runserver", "{port}", "--noreload")], ids=lambda c: c[0]
)
def test_isolated_tasks_have_models_and_a_process_of_their_own(
    project: Path, command: tuple[str, ...]
) -> None:
    """Also where no module of the project has the scheduler as an attribute."""
    url = f"sqlite:///{project}/shop.sqlite3"
    client = Scheduler(url, namespace="shop")
    client.task(name="alone")(lambda: None)  # only its name is needed here
    with serving(project, url, "python", "manage.py", *command, cwd=project) as server:
        try:
            run = client.enqueue("alone")
            state = until(lambda: s if (s := client.get_run(run).state) != "waiting" else None, "")
            assert state in ("claimed", "succeeded"), server.output
            pid, orders = client.result(run, timeout=60)
        finally:
            client.stop()
        assert pid != server.pid
        assert orders == 0


def test_nothing_starts_under_migrate_and_shell(project: Path) -> None:
    threads = "import threading; print([t.name for t in threading.enumerate()])"
    looked = "from tenure.contrib.django import scheduler; print(len(scheduler.tasks))"
    said = manage(project, "shell", "-v", "0", "-c", f"{looked}; {threads}")
    assert said.split() == ["1", "['MainThread']"]
    with closing(sqlite3.connect(project / "shop.sqlite3")) as database:
        for table in ("tenure_lease", "tenure_lease_history", "tenure_fence"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_hints_name_commands_that_work_there(project: Path) -> None:
    said = manage(project, "tenure", "status", fails=True)  # nobody leads
    assert "Start one: python manage.py tenure run\n" in said
    missing = manage(project, "tenure", "runs", "show", "7", fails=True)
    assert "`python manage.py tenure runs list` shows the latest" in missing
