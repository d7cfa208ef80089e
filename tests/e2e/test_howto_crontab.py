"""docs/howto/crontab.md, followed word by word. What crontab and kubectl print is made here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import at_hand, node, tenure

PAGE = ROOT / "docs" / "howto" / "crontab.md"
CRONJOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "report", "namespace": "shop"},
    "spec": {
        "schedule": "0 7 * * 1-5",
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"image": "shop:1", "args": ["x"]}]}}}
        },
    },
}


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (program,) = (block.text for block in blocks(PAGE) if block.language)
    crontab, *others = (block.text for block in blocks(PAGE) if not block.language)
    printed = {
        "crontab": f"{crontab}\n",
        "kubectl": json.dumps({"kind": "List", "items": [CRONJOB]}),
    }
    (tmp_path / "app.py").write_text(program)
    script = tmp_path / "backup.sh"
    script.write_text("#!/bin/sh\necho $1 > done\n")
    script.chmod(0o755)
    commands = [line for text in others for line in text.splitlines()]
    start = commands.index("tenure run app:scheduler")

    def follow(command: str) -> str:
        program, *words = shlex.split(command)
        if program in printed:
            (tmp_path / words[-1]).write_text(printed[program])
            return ""
        # Its own process where code is imported: what it imports must not stay here.
        answer = tenure(tmp_path, *words) if "--app" in words else at_hand(tmp_path, *words)
        assert answer.code == 0, answer
        return answer.out

    for command in commands[:start]:
        follow(command)
    with node(tmp_path):
        said = [follow(command) for command in commands[start + 1 :]]
    assert (tmp_path / "done").read_text() == "--all\n"
    [listed] = (text for text in said if "rotate.sh-2" in text)
    states = {line.split()[0]: "paused" in line for line in listed.splitlines() if ".sh-" in line}
    assert states == {"backup.sh-1": False, "rotate.sh-2": True}
    (line,) = (tmp_path / "cronjobs.jsonl").read_text().splitlines()
    assert json.loads(line)["name"] == "shop/report"
