"""The alert rules and the dashboard that are shipped: promtool accepts them, every rule fires when
it should and is quiet else, and what they name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenure.observe.__main__ import main
from tenure.observe.catalogue import METRICS, OF_STORE
from tests.docs.markdown import ROOT, anchors, table
from tests.support.promtool import check_rules, promtool

SHIPPED = ROOT / "src/tenure/observe/prometheus"
ALERTS = SHIPPED / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((SHIPPED / "dashboard.json").read_text())
EXPRESSIONS = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])
]
NOW = "0+60x120"
"""The present, each minute, of a gauge that is a time."""
FLAT = "5x120"
GROWS = "5x20 5+1x100"

# Of a cluster of two nodes that is well.
WELL = {
    'tenure_leader{job="t", instance="a"}': "1x120",
    'tenure_leader{job="t", instance="b"}': "0x120",
    'tenure_ready{job="t", instance="a"}': "1x120",
    'tenure_store_up{job="t", instance="a", part="store"}': "1x120",
    'tenure_heartbeat_timestamp_seconds{job="t", instance="a"}': NOW,
    # With a ttl of an hour, every twelve minutes.
    'tenure_heartbeat_timestamp_seconds{job="t", instance="b"}': "0x5 "
    + " ".join(f"{number}x11" for number in range(360, 7200, 720)),
    'tenure_lease_ttl_seconds{job="t", instance="a"}': "15x120",
    'tenure_lease_ttl_seconds{job="t", instance="b"}': "3600x120",
    'tenure_loop_timestamp_seconds{job="t", instance="a"}': NOW,
    'tenure_took_office_total{job="t", instance="a"}': "1x120",
    'tenure_store_call_duration_seconds_bucket{job="t", part="runs", le="1"}': "0+60x120",
    'tenure_store_call_duration_seconds_bucket{job="t", part="runs", le="2.5"}': "0+60x120",
    'tenure_store_call_duration_seconds_bucket{job="t", part="runs", le="+Inf"}': "0+60x120",
    'tenure_tick_lateness_seconds_bucket{job="t", le="5"}': "0+60x120",
    'tenure_tick_lateness_seconds_bucket{job="t", le="15"}': "0+60x120",
    'tenure_tick_lateness_seconds_bucket{job="t", le="+Inf"}': "0+60x120",
    'tenure_survey_timestamp_seconds{job="t", instance="a"}': NOW,
    'tenure_next_due_timestamp_seconds{job="t", instance="a"}': "0+60x120",
    'tenure_oldest_waiting_timestamp_seconds{job="t", instance="a"}': NOW,
    'tenure_oldest_lock_timestamp_seconds{job="t", instance="a"}': NOW,
    'tenure_hung_runs{job="t", instance="a"}': "0x120",
    'tenure_runs_total{job="t", outcome="failed", task="sweep"}': FLAT,
    'tenure_runs_recovered_total{job="t", outcome="lost"}': FLAT,
    'tenure_schedules_refused_total{job="t", outcome="set_aside"}': FLAT,
    'tenure_retention_lag_seconds{job="t"}': "30x120",
    'tenure_relay_stalled{job="t", relay="kafka"}': "0x120",
    'tenure_relay_oldest_timestamp_seconds{job="t", relay="kafka"}': NOW,
    'tenure_relay_parked{job="t", relay="kafka"}': "0x120",
    'tenure_events_oldest_unread_timestamp_seconds{job="t", topic="x", group="y"}': NOW,
    'tenure_events_dropped_total{job="t"}': FLAT,
    'tenure_clock_held{job="t"}': "0x120",
    'tenure_clock_skew_seconds{job="t", instance="a"}': "-0.2x120",
    'tenure_service_failures_total{job="t", service="ticker"}': FLAT,
}
STOPS = "0+60x20 1200x100"
"""A time that stands still from the twentieth minute on."""
TROUBLE: dict[str, list[dict[str, str]]] = {
    "TenureNoLeader": [
        # The leader was killed, and there is nobody else.
        {'tenure_leader{.*"a"': "1x20 stale", 'tenure_leader{.*"b"': ""},
        # There is somebody else, who cannot take over.
        {'tenure_leader{.*"a"': "1x20 stale"},
    ],
    "TenureSeveralLeaders": [{'tenure_leader{.*"b"': "1x120"}],
    "TenureLeadershipUnsteady": [{"tenure_took_office": "1x20 1+1x100"}],
    "TenureStoreAway": [{"tenure_store_up": "1x20 0x100"}],
    "TenureStoreSlow": [{'call_duration.*le="1"': "0+1x120"}],
    "TenureHeartbeatLate": [
        {'tenure_heartbeat.*"a"': STOPS},
        {'tenure_heartbeat.*"b"': STOPS},
    ],
    "TenureLoopHung": [{"tenure_loop": STOPS}],
    "TenureNotReady": [{"tenure_ready": "1x20 0x100"}],
    "TenureNotFiring": [{"tenure_next_due": STOPS}],
    "TenureFiringLate": [{'tenure_tick_lateness.*le="5"': "0+1x120"}],
    "TenureRunsWait": [{"tenure_oldest_waiting": STOPS}],
    "TenureLockStuck": [{"tenure_oldest_lock": STOPS}],
    "TenureRunHung": [{"tenure_hung_runs": "0x20 2x100"}],
    "TenureRunsFailed": [{"tenure_runs_total": GROWS}],
    "TenureRunsLost": [{"tenure_runs_recovered": GROWS}],
    "TenureScheduleSetAside": [{"tenure_schedules_refused": GROWS}],
    "TenureRetentionBehind": [{"tenure_retention_lag": "30x20 7200x100"}],
    "TenureRelayDown": [
        {"tenure_relay_stalled": "0x20 1x100"},  # its sink is away
        {"tenure_relay_oldest": STOPS},  # no process runs it
    ],
    "TenureEventsParked": [{"tenure_relay_parked": "0x20 3x100"}],
    "TenureEventsUnread": [{"tenure_events_oldest_unread": STOPS}],
    "TenureEventsDropped": [{"tenure_events_dropped": GROWS}],
    "TenureClockHeld": [{"tenure_clock_held": "0x20 1x100"}],
    "TenureClockSkewed": [{"tenure_clock_skew": "-0.2x20 -9x100"}],
    "TenureServiceFailed": [{"tenure_service_failures": GROWS}],
}


def test_every_rule_is_accepted() -> None:
    assert f"{len(RULES)} rules found" in check_rules(ALERTS)


def test_every_alert_fires_for_its_reason_and_for_nothing_else(tmp_path: Path) -> None:
    assert list(TROUBLE) == [rule["alert"] for rule in RULES]
    # Each as a job of its own: so one evaluation is enough for all.
    clusters = {"well": WELL}
    expected = []
    for alert, changes in TROUBLE.items():
        for number, change in enumerate(changes):
            job = f"{alert}-{number}"
            clusters[job] = _changed(change)
            labels = f'{{alertname="{alert}", job="{job}"}}'
            expected.append({"labels": labels, "value": 1})
    series = [
        {"series": name.replace('job="t"', f'job="{job}"'), "values": values}
        for job, cluster in clusters.items()
        for name, values in cluster.items()
    ]
    firing = 'count by (alertname, job) (ALERTS{alertstate="firing"})'
    case = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": firing, "eval_time": "110m", "exp_samples": expected}],
    }
    rules = tmp_path / "rules_test.yaml"
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [case]}
    rules.write_text(yaml.safe_dump(content))
    promtool("test", "rules", rules)


def _changed(change: dict[str, str]) -> dict[str, str]:
    """The series of a cluster that is well, but for those that match."""
    series = dict(WELL)
    for pattern, values in change.items():
        [name] = [each for each in WELL if re.search(pattern.replace("{", r"\{"), each)]
        if values:
            series[name] = values
        else:
            del series[name]
    return series


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_says_what_it_means_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Tenure")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/operations.md"
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in RULES), *EXPRESSIONS])
def test_expression_names_metrics_and_labels_that_exist(expression: str) -> None:
    known = {metric.name: metric for metric in METRICS}
    for name in re.findall(r"\btenure_\w+", expression):
        bare = re.sub(r"_(bucket|count|sum)$", "", name)
        assert bare in known or name in known, name
    labels = {label for metric in METRICS for label in metric.labels} | {"job", "instance", "le"}
    for group in re.findall(r"by \(([^)]*)\)", expression):
        assert {each.strip() for each in group.split(",")} <= labels


def test_every_expression_of_the_dashboard_is_accepted(tmp_path: Path) -> None:
    assert EXPRESSIONS
    rules = [
        {"record": f"panel:{number}", "expr": each.replace("$__rate_interval", "5m")}
        for number, each in enumerate(EXPRESSIONS)
    ]
    path = tmp_path / "dashboard.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in check_rules(path)


def test_the_dashboard_works_with_any_data_source() -> None:
    variables = {each["name"]: each["type"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query"}
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert all(panel["description"].endswith(".") for panel in panels)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    shown = " ".join([*(rule["expr"] for rule in RULES), *EXPRESSIONS])
    unused = [metric.name for metric in METRICS if metric.name not in shown]
    assert unused == [
        "tenure_node_info",
        "tenure_schedule_runs_total",
        "tenure_schedule_last_success_timestamp_seconds",
        "tenure_oldest_running_timestamp_seconds",
        "tenure_relay_parked_total",
        "tenure_store_connections",
    ]


# -- docs/observability.md ------------------------------------------------------------------------

PAGE = ROOT / "docs/observability.md"


def test_the_page_has_every_metric_and_says_what_it_is_for() -> None:
    rows = table(PAGE, "metric", "type", "labels", "meaning", "question")
    found = [tuple(cell.replace("`", "") for cell in row.values())[:4] for row in rows]
    first = [metric for metric in METRICS if metric not in OF_STORE]
    assert found == [
        (metric.name, metric.kind, ", ".join(metric.labels), metric.help)
        for metric in (*first, *OF_STORE)
    ]
    assert all(len(row["question"]) > 10 for row in rows)


def test_the_page_has_every_alert_and_leads_to_what_to_do() -> None:
    rows = table(PAGE, "alert", "severity", "when", "what to do")
    assert [(row["alert"].strip("`"), row["severity"]) for row in rows] == [
        (rule["alert"], rule["labels"]["severity"]) for rule in RULES
    ]
    for row, rule in zip(rows, RULES, strict=True):
        runbook = rule["annotations"]["runbook"].removeprefix("docs/")
        assert f"]({runbook})" in row["what to do"]


def test_the_files_can_be_had_from_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alerts"]) == 0
    assert capsys.readouterr().out == ALERTS.read_text()
    assert main(["dashboard"]) == 0
    assert json.loads(capsys.readouterr().out) == DASHBOARD
    assert main([]) == 2
