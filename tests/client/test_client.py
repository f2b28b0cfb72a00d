"""The client library against a real scheduler, over connections that break."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.live.daemon import Daemon, daemon

import fairlead
from fairlead.client import ApiError, AsyncClient, Client, Job, Unreachable
from fairlead.client.connection import find_token
from fairlead.model.errors import InputError
from fairlead.model.job import JobSpec

from .wire import wire


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("up")) as made:
        yield made


@pytest.fixture
def client(up: Daemon) -> Iterator[Client]:
    with up.client() as made:
        yield made


def token_of(up: Daemon) -> str:
    return (up.state_dir / "token").read_text()


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert verbs(Client) == verbs(AsyncClient)
    for name in ("submit", "jobs", "put_tenant", "whatif"):
        assert inspect.signature(getattr(Client, name)) == inspect.signature(getattr(AsyncClient, name))
        assert getattr(Client, name).__doc__


def test_importing_fairlead_imports_no_client() -> None:
    code = (
        "import sys, fairlead\nassert 'httpx' not in sys.modules\n"
        "fairlead.Client\nassert 'httpx' in sys.modules\n"
        "assert not {'numpy', 'pydantic', 'typer', 'sqlalchemy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError):
        _ = fairlead.Clint  # type: ignore[attr-defined]


def test_a_job_from_its_submission_to_its_end(client: Client) -> None:
    made = client.submit({"run": "echo hi; exit 4", "name": "one", "resources": {"gpus": 2}})
    job = client.wait(made.id, timeout_s=60)
    assert isinstance(job, Job)
    assert (job.state, job.exit_code, job.shell_code, job.gpus, job.name) == ("failed", 4, 4, 2, "one")
    assert b"".join(client.logs(made.id)) == b"hi\n"
    assert [event.kind for event in client.follow(0, job=made.id)][-1] == "end"
    assert client.now_s is not None
    assert abs(client.now_s - job.submit_s) < 60
    assert "exit" in client.explain(made.id).message


def test_a_job_is_submitted_as_fields_file_or_spec(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("run: pwd\n")
    for job in (path, str(path), JobSpec(run=("true",)), {"run": ["true"]}):
        assert client.wait(client.submit(job).id, timeout_s=60).ok
    with pytest.raises(InputError, match="did you mean 'resources'"):
        client.submit({"run": "x", "resorces": {}})
    path.write_text("run: pwd\nnmae: x\n")
    with pytest.raises(InputError, match=r"job.yaml:2.*did you mean 'name'"):
        client.submit(path)


def test_everything_else_is_typed_too(client: Client) -> None:
    assert client.cluster().gpus == 8
    assert client.nodes()[0].name == "node-0"
    assert client.policy().placer == "consolidate"
    assert client.me().role == "admin"
    assert client.dry_run({"run": "true"}).fits
    client.put_tenant("vision", 4, 2.0)
    assert {one.name: one.weight for one in client.tenants()}.get("vision", 2.0) == 2.0
    client.remove_tenant("vision")
    made = client.create_token(label="x", expires="1h")
    assert made.token not in repr(made)
    assert made.id in {one.id for one in client.tokens()}
    client.revoke_token(made.id)
    assert client.trace().startswith("job_id,")
    assert client.whatif(["srtf"])[0].policy == client.policy().policy
    assert list(client.all_jobs(limit=1, live=False))


def test_an_error_has_the_problem_s_fields(client: Client) -> None:
    with pytest.raises(ApiError) as told:
        client.submit({"run": "true", "resources": {"gpus": 99}})
    assert (told.value.status, told.value.field, told.value.value) == (422, "resources.gpus", 99)
    assert told.value.accepts == "8 or fewer"
    assert told.value.is_mistake
    with pytest.raises(ApiError, match="there is no job with this id") as told:
        client.job("424242")
    assert told.value.status == 404


def test_waiting_has_an_end(client: Client) -> None:
    made = client.submit({"run": "sleep 60"})
    with pytest.raises(TimeoutError, match="has not ended within"):
        client.wait(made.id, timeout_s=0.3)
    client.cancel(made.id)
    assert client.wait(made.id, timeout_s=60).state == "cancelled"


# -- connections that break ---------------------------------------------------------------------------------------------------


def test_an_answer_that_is_lost_makes_no_second_job(up: Daemon, client: Client) -> None:
    before = len(list(client.all_jobs()))
    with wire(up.url) as broken, Client(broken.url, token_of(up)) as far:
        broken.deaf = 2
        made = far.submit({"run": "true", "name": "once"})
        assert made.duplicate  # the first try was heard, its answer was not
        assert broken.connections == 3
    assert len(list(client.all_jobs())) == before + 1


def test_what_can_t_be_repeated_is_not(up: Daemon, client: Client) -> None:
    made = client.submit({"run": "sleep 60"})
    with wire(up.url) as broken, Client(broken.url, token_of(up)) as far:
        broken.deaf = 1
        with pytest.raises(Unreachable, match="broke"):
            far.cancel(made.id)
    assert client.wait(made.id, timeout_s=60).state == "cancelled"


def test_a_broken_stream_of_events_goes_on_where_it_was(up: Daemon, client: Client) -> None:
    with wire(up.url) as broken, Client(broken.url, token_of(up)) as far:
        seen = []
        wanted = client.submit({"run": "true"}).id
        for event in far.follow(0):
            seen.append(event.seq)
            if event.seq == 2:
                broken.cut()
            if event.job == wanted and event.is_end:
                break
        assert broken.connections >= 2
    assert seen == list(range(1, len(seen) + 1))


def test_a_broken_log_goes_on_where_it_was(up: Daemon, client: Client, tmp_path: Path) -> None:
    made = client.submit({"run": f"echo one; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo two; exit 0"})
    with wire(up.url) as broken, Client(broken.url, token_of(up)) as far:
        got = b""
        for chunk in far.logs(made.id, follow=True):
            got += chunk
            if got == b"one\n" and not (tmp_path / "go").exists():
                broken.cut()
                (tmp_path / "go").touch()
    assert got == b"one\ntwo\n"


def test_nobody_there_is_told_soon_with_what_to_do(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:1", "x") as client, pytest.raises(Unreachable, match="start one with `fairlead up`"):
        client.cluster()


def test_a_scheduler_that_does_not_answer_is_not_waited_for_for_ever(up: Daemon) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, "x", timeout_s=0.2) as client, pytest.raises(Unreachable, match=r"within 0\.2 s"):
            client.cancel("1")


# -- asyncio ------------------------------------------------------------------------------------------------------------------


def test_the_async_client_does_the_same(up: Daemon) -> None:
    async def work() -> None:
        async with AsyncClient(up.url, token_of(up)) as client:
            made = await asyncio.gather(*(client.submit({"run": f"echo {i}"}) for i in range(4)))
            jobs = await asyncio.gather(*(client.wait(one.id, timeout_s=60) for one in made))
            assert all(job.ok for job in jobs)
            assert [b"".join([c async for c in client.logs(one.id)]) for one in made] == [
                b"0\n",
                b"1\n",
                b"2\n",
                b"3\n",
            ]
            ids = [job.id async for job in client.all_jobs(limit=2, live=False)]
            assert {one.id for one in made} <= set(ids)
            running = await client.submit({"run": "sleep 60"})
            ended = asyncio.create_task(_last(client, running.id))
            await client.cancel(running.id)
            assert await asyncio.wait_for(ended, 60) == "end"
            long = await client.submit({"run": "sleep 60"})
            with pytest.raises(TimeoutError):
                await client.wait(long.id, timeout_s=0.2)
            await client.cancel(long.id)
            with pytest.raises(ApiError):
                await client.job("none")

    async def _last(client: AsyncClient, id: str) -> str:
        kind = ""
        async for event in client.follow(0, job=id):
            kind = event.kind
        return kind

    asyncio.run(work())


def test_one_client_serves_many_threads(client: Client) -> None:
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                client.cluster()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# -- whom it talks to, and as whom ---------------------------------------------------------------------------------------------


def test_a_token_is_found_in_order(tmp_path: Path) -> None:
    path = tmp_path / "fairlead" / "token"
    path.parent.mkdir()
    path.write_text("fl_file\n")
    path.chmod(0o600)
    environ = {"XDG_STATE_HOME": str(tmp_path), "FAIRLEAD_TOKEN": "fl_variable"}
    assert find_token("fl_given", environ).text == "fl_given"
    assert find_token(None, environ).text == "fl_variable"
    assert find_token(None, {"XDG_STATE_HOME": str(tmp_path)}).text == "fl_file"
    assert find_token(None, {"FAIRLEAD_STATE_DIR": str(path.parent)}).text == "fl_file"
    assert find_token(None, {"FAIRLEAD_STATE_DIR": str(tmp_path)}).text == ""
    assert "fl_" not in repr(find_token("fl_given", {}))
    path.chmod(0o604)
    with pytest.raises(InputError, match="others could read"):
        find_token(None, {"FAIRLEAD_TOKEN_FILE": str(path)})


@pytest.mark.parametrize("url", ["http://example.org", "ftp://127.0.0.1", "127.0.0.1:7878", "http://", "http://[::1"])
def test_an_address_that_can_t_be_is_told(url: str) -> None:
    with pytest.raises(InputError):
        Client(url, "x")


def test_plain_http_beyond_this_machine_must_be_asked_for() -> None:
    with Client("http://example.org", "x", allow_public=True) as client:
        assert client.url == "http://example.org"
    with Client("http://[::1]:7878/", "x") as client:
        assert client.url == "http://[::1]:7878"
