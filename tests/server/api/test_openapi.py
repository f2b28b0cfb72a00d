"""The description of the API: complete, so that clients can be made from it, and the same as what docs/api.md says."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from .service import Service

ROOT = Path(__file__).resolve().parents[3]
DECLARED = {"400", "401", "403", "404", "409", "413", "422", "429", "503"}


@pytest.fixture(scope="module")
def described(live: Service) -> dict[str, Any]:
    answer = live.ask(None, "GET", "/v1/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, found) for path, ways in described["paths"].items() for method, found in ways.items()]


def test_it_says_what_it_is(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.1")
    assert described["info"]["title"] == "fairlead"
    assert described["info"]["version"] == version("fairlead")
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert described["security"] == [{"token": []}]


def test_every_operation_says_what_it_answers_and_what_it_refuses(described: dict[str, Any]) -> None:
    for method, path, found in operations(described):
        at = f"{method} {path}"
        assert found["summary"], at
        if path == "/healthz":
            assert found["security"] == []
            continue
        assert set(found["responses"]) >= DECLARED, at
        for status, answer in found["responses"].items():
            if status in DECLARED:
                schema = answer["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, at
            elif status != "204":
                assert all("schema" in one for one in answer["content"].values()), at
                assert answer["content"], at


def test_bodies_have_schemas_and_examples(described: dict[str, Any]) -> None:
    bodies = [(path, found["requestBody"]) for _, path, found in operations(described) if "requestBody" in found]
    assert {path for path, _ in bodies} >= {"/v1/jobs", "/v1/tenants/{name}", "/v1/policy", "/v1/whatif", "/v1/tokens"}
    for path, body in bodies:
        if path == "/v1/studio/traces":  # a file, whatever is in it
            assert body["content"]["application/octet-stream"]["schema"]["format"] == "binary"
            continue
        assert body["content"]["application/json"]["examples"], path


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            return own + [one for value in part.values() for one in references(value)]
        return [one for value in part for one in references(value)] if isinstance(part, list) else []

    found = set(references(described))
    assert "#/components/schemas/JobDocument" in found
    for one in found:
        name = one.removeprefix("#/components/schemas/")
        assert name in described["components"]["schemas"], one


def test_names_of_operations_are_unique_and_their_own(described: dict[str, Any]) -> None:
    ids = [found["operationId"] for _, _, found in operations(described)]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z_]+", one) for one in ids), ids


def test_the_guide_has_every_endpoint(described: dict[str, Any]) -> None:
    guide = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) (/[^`?]*)", guide, re.MULTILINE))
    assert told == {(method.upper(), path) for method, path, _ in operations(described)}


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_guide_run(live: Service) -> None:
    guide = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    lines = guide.split("```sh\n")[1].split("```")[0].splitlines()
    setting, commands = lines[:2], lines[2:]
    assert setting[0].startswith("URL=")
    assert setting[1].startswith('AUTH="Authorization: Bearer ')
    before = f'URL={live.url}\nAUTH="Authorization: Bearer {live.token["ada"]}"\n'
    # its job is there, and waits: it would not find its program
    assert live.submit("ada", resources={"gpus": 8}) == "1"
    for command in commands:
        assert command.startswith("curl ")
        run = before + command.replace("curl", "curl -sS --fail-with-body --max-time 2", 1)
        done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, timeout=60, check=False)
        endless = " -N " in command
        assert done.returncode in ((0, 28) if endless else (0,)), f"{command}: {done.stdout} {done.stderr}"
