"""Who may do what, against the real service: the table of `auth.MAY`, act by act, role by role, own and others'."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.server.auth import MAY, Act, Role, Scope

from .service import PEOPLE, Service

ASKERS = {Role.ADMIN: "ada", Role.USER: "ann", Role.VIEWER: "vic"}
Attempt = Callable[[Service, str, str], int]  #: who asks, whose it is → status


@pytest.fixture(scope="module")
def jobs(live: Service) -> dict[str, str]:
    """A held job of ann's and one of bob's."""
    found = {}
    for name in ("ann", "bob"):
        # more than there is while both are held first: it never starts
        found[name] = live.submit(name, name=f"of-{name}", resources={"gpus": 8})
        live.ask(name, "POST", f"/v1/jobs/{found[name]}/suspend")
        live.until(name, found[name], "held")
    return found


def asking(method: str, path: str, **options: object) -> Attempt:
    return lambda live, who, owner: live.ask(who, method, path, **options).status_code


def of_job(method: str, path: str) -> Attempt:
    def attempt(live: Service, who: str, owner: str) -> int:
        (job,) = live.ask("ada", "GET", "/v1/jobs", params={"name": f"of-{owner}"}).json()["jobs"]
        return live.ask(who, method, path.format(job=job["id"])).status_code

    return attempt


def sees_spec(live: Service, who: str, owner: str) -> int:
    (job,) = live.ask("ada", "GET", "/v1/jobs", params={"name": f"of-{owner}"}).json()["jobs"]
    answer = live.ask(who, "GET", f"/v1/jobs/{job['id']}")
    return 403 if answer.status_code == 200 and answer.json()["spec"] is None else answer.status_code


def submits(live: Service, who: str, owner: str, **fields: object) -> int:
    return live.ask(who, "POST", "/v1/jobs?dry_run=true", json={"run": "true", **fields}).status_code


def for_tenant(live: Service, who: str, owner: str) -> int:
    return submits(live, who, owner, tenant=PEOPLE[owner][0])


def lists_tokens(live: Service, who: str, owner: str) -> int:
    answer = live.ask(who, "GET", "/v1/tokens")
    if answer.status_code != 200:
        return answer.status_code
    return 200 if any(token["user"] == owner for token in answer.json()["tokens"]) else 403


def makes_token(live: Service, who: str, owner: str) -> int:
    body = {"user": owner, "role": str(PEOPLE[who][1]), "expires": 1}
    return live.ask(who, "POST", "/v1/tokens", json=body).status_code


def revokes_token(live: Service, who: str, owner: str) -> int:
    _, row = live.tokens.issue(owner, Role.USER, lifetime_s=60.0)
    return live.ask(who, "DELETE", f"/v1/tokens/{row.id}").status_code


def of_trace(method: str) -> Attempt:
    """To a trace that its owner keeps in the studio."""

    def attempt(live: Service, who: str, owner: str) -> int:
        made = live.ask(owner, "POST", "/v1/studio/traces", content="job_id,submit_s,gpus,duration_s\n1,0,1,60\n")
        assert made.status_code == 201, made.text
        try:
            return live.ask(who, method, f"/v1/studio/traces/{made.json()['id']}").status_code
        finally:
            live.ask(owner, "DELETE", f"/v1/studio/traces/{made.json()['id']}")

    return attempt


#: what exercises each act, and whether what it is done to belongs to somebody
ATTEMPTS: dict[Act, tuple[bool, list[Attempt]]] = {
    Act.SEE_JOBS: (
        True,
        [
            of_job("GET", "/v1/jobs/{job}"),
            of_job("GET", "/v1/jobs/{job}/events"),
            of_job("GET", "/v1/jobs/{job}/explain"),
        ],
    ),
    Act.SEE_LOGS: (True, [of_job("GET", "/v1/jobs/{job}/logs")]),
    Act.SEE_SPEC: (True, [sees_spec]),
    Act.SUBMIT: (False, [submits]),
    Act.CONTROL: (True, [of_job("POST", "/v1/jobs/{job}/suspend")]),
    Act.RAISE_PRIORITY: (False, [lambda *asked: submits(*asked, priority=5)]),
    Act.USE_TENANT: (True, [for_tenant]),
    Act.SEE_CLUSTER: (False, [asking("GET", f"/v1/{what}") for what in ("cluster", "nodes", "tenants", "policy")]),
    Act.SEE_METRICS: (False, [asking("GET", "/metrics")]),
    Act.ASK_TWIN: (False, [asking("POST", "/v1/whatif", json={})]),
    Act.EXPORT: (False, [asking("GET", "/v1/trace")]),
    Act.SEE_STUDIO: (True, [of_trace("GET")]),
    Act.USE_STUDIO: (True, [of_trace("DELETE")]),
    Act.DRAIN: (False, [asking("POST", f"/v1/nodes/node-1/{what}") for what in ("drain", "undrain")]),
    Act.CHANGE_TENANTS: (
        False,
        [asking("PUT", "/v1/tenants/extra", json={"quota_gpus": 1}), asking("DELETE", "/v1/tenants/extra")],
    ),
    Act.CHANGE_POLICY: (False, [asking("PUT", "/v1/policy", json={"policy": "fifo"})]),
    Act.SEE_TOKENS: (True, [lists_tokens]),
    Act.MAKE_TOKENS: (True, [makes_token, revokes_token]),
}


def test_every_act_is_attempted() -> None:
    assert set(ATTEMPTS) == set(Act)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("act", list(Act), ids=[act.name for act in Act])
def test_a_role_may_what_the_table_says_and_no_more(live: Service, jobs: dict[str, str], act: Act, role: Role) -> None:
    owned, attempts = ATTEMPTS[act]
    scope, who = MAY[act][role], ASKERS[role]
    for attempt in attempts:
        statuses = {owner: attempt(live, who, owner) for owner in (("ann", "bob") if owned else ("ann",))}
        for owner, status in statuses.items():
            allowed = scope is Scope.ALL or (scope is Scope.OWN and (owner == who or not owned))
            assert (status < 300) if allowed else (status in (403, 404)), f"{who} to {owner}: {status}"


def test_a_job_of_another_is_as_if_it_were_not_there(live: Service, jobs: dict[str, str]) -> None:
    for method, path in (
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/logs"),
        ("GET", "/explain"),
        ("POST", "/cancel"),
        ("POST", "/suspend"),
        ("POST", "/resume"),
    ):
        there = live.ask("ann", method, f"/v1/jobs/{jobs['bob']}{path}")
        not_there = live.ask("ann", method, f"/v1/jobs/999999{path}")
        assert there.status_code == not_there.status_code == 404
        assert {**there.json(), "value": None} == {**not_there.json(), "value": None}
    waiting = live.ask("ann", "POST", "/v1/jobs", json={"run": "true", "depends_on": [jobs["bob"]]})
    nowhere = live.ask("ann", "POST", "/v1/jobs", json={"run": "true", "depends_on": ["999999"]})
    assert waiting.status_code == nowhere.status_code == 422
    assert (waiting.json()["detail"], waiting.json()["field"]) == (nowhere.json()["detail"], "depends_on")


def test_a_user_sees_only_its_own_in_listings_events_and_on_nodes(live: Service, jobs: dict[str, str]) -> None:
    running = live.submit("bob", name="bobs-own", resources={"gpus": 1})
    live.until("bob", running, "running")
    ids = {job["id"] for job in live.ask("ann", "GET", "/v1/jobs", params={"limit": 1000}).json()["jobs"]}
    assert jobs["ann"] in ids
    assert not ids & {jobs["bob"], running}
    assert live.ask("ann", "GET", "/v1/jobs?user=bob").status_code == 403
    seen = {event["job"] for event in live.ask("ann", "GET", "/v1/events").json()["events"]}
    assert jobs["ann"] in seen
    assert not seen & {jobs["bob"], running}
    for who, visible in (("ann", []), ("bob", [running]), ("vic", [running])):
        nodes = live.ask(who, "GET", "/v1/nodes").json()["nodes"]
        assert [job for node in nodes for job in node["jobs"]] == visible
        assert sum(node["running"] for node in nodes) == 1
    live.ask("bob", "POST", f"/v1/jobs/{running}/cancel")
    live.until("bob", running, "cancelled")


def test_nobody_gives_away_more_than_they_have(live: Service) -> None:
    for body in ({"role": "admin"}, {"role": "viewer"}, {"user": "bob"}, {"user": "new", "tenant": "vision"}):
        assert live.ask("ann", "POST", "/v1/tokens", json=body).status_code == 403, body
    assert live.ask("vic", "POST", "/v1/tokens", json={}).status_code == 403


def test_the_values_of_variables_are_shown_to_nobody(live: Service) -> None:
    job = live.submit(env={"TOKEN": "hush-hush"}, name="secretive")
    for who in ("ann", "ada", "vic"):
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", "/v1/jobs?name=secretive", "/v1/events"):
            answer = live.ask(who, "GET", path)
            assert answer.status_code == 200
            assert "hush-hush" not in answer.text
    wrong = live.ask("ann", "POST", "/v1/jobs", json={"run": "true", "env": "TOKEN=hush-hush"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "env")
    assert "hush-hush" not in wrong.text
    wrong = live.ask("ann", "POST", "/v1/jobs", json={"run": "true", "env": {"TOKEN": "hush-hush\0"}})
    assert wrong.status_code == 422
    assert "hush-hush" not in wrong.text
    live.ask("ann", "POST", f"/v1/jobs/{job}/cancel")
