"""`fairlead up`: what it says, what it refuses, and that jobs outlive it."""

from __future__ import annotations

import http.server
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.live import pid_file
from fairlead.cli.live.daemon import chosen
from fairlead.client import Client
from fairlead.server.config import Config
from fairlead.server.store import Store

from .daemon import Daemon, daemon, environment, run, until


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Daemon]:
    """Not started yet."""
    one = Daemon(tmp_path / "up")
    yield one
    one.end()


def refused(folder: Path, *args: str, **env: str) -> str:
    """What `up` says where it does not start. Nothing may have been made."""
    state_dir = folder / "state"
    ran = run("up", "--port", "0", *args, cwd=folder, env=environment(state_dir, **env))
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert len([line for line in ran.err.splitlines() if line.startswith("fairlead: ")]) == 1, ran.err
    assert not state_dir.exists()
    return ran.err


def test_it_says_where_it_listens_what_it_has_and_what_to_do_next(made: Daemon) -> None:
    made.args = ("--gpus", "4", "--nodes", "2", "--policy", "srtf", "--placer", "spread")
    made.start()
    assert "8 virtual, on 2 nodes" in made.told
    assert "srtf, placer spread" in made.told
    assert f"{made.state_dir / 'token'} (made now)" in made.told
    assert "fairlead submit" in made.told
    assert made.state_dir.stat().st_mode & 0o777 == 0o700
    for name in ("token", "fairlead.pid", "fairlead.db"):
        assert (made.state_dir / name).stat().st_mode & 0o777 == 0o600
    with made.client() as client:
        assert [(node.name, node.gpus) for node in client.nodes()] == [("node-0", 4), ("node-1", 4)]
    assert made.signal(signal.SIGTERM) == 0
    assert made.errors.endswith("stopped: jobs run on; start `fairlead up` again to adopt them\n")
    assert not (made.state_dir / "fairlead.pid").exists()


def test_jobs_run_on_without_it_and_are_adopted(made: Daemon, tmp_path: Path) -> None:
    made.start()
    token = (made.state_dir / "token").read_text()
    line = f"echo begun; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo over; exit 7"
    id = made.submit("--", "sh", "-c", line)
    made.wait_for(id, "running")
    for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
        assert made.signal(number) == code
        # what a killed one has left behind counts for nothing
        assert (made.state_dir / "fairlead.pid").exists() == (number == signal.SIGKILL)
        made.start()
        assert "1 running: taken up where they were" in made.told
    assert (made.state_dir / "token").read_text() == token
    (tmp_path / "go").touch()
    with made.client() as client:
        job = client.wait(id, timeout_s=60)
        assert (job.exit_code, job.run) == (7, 1)
        assert b"".join(client.logs(id)) == b"begun\nover\n"


def test_it_ends_soon_though_somebody_follows_its_events(made: Daemon) -> None:
    made.start()
    id = made.submit("--", "sleep", "60")
    with made.popen("events", "-f", "--since", "0") as events, made.popen("logs", "-f", id) as logs:
        assert events.stdout is not None
        events.stdout.readline()
        assert made.signal(signal.SIGINT) == 0
        for process in (events, logs):
            process.kill()
            process.communicate()


def test_a_second_one_is_told_who_runs_here(made: Daemon) -> None:
    made.start()
    assert made.process is not None
    ran = run("up", "--port", "0", "--gpus", "1", cwd=made.folder, env=environment(made.state_dir))
    assert ran.code == 2
    assert f"a scheduler runs here already: pid {made.process.pid}, at {made.url}" in ran.err
    # without the note the locks still keep them apart
    (made.state_dir / "fairlead.pid").unlink()
    ran = run("up", "--port", "0", "--gpus", "1", cwd=made.folder, env=environment(made.state_dir))
    assert ran.code == 1
    assert "fairlead: " in ran.err
    assert "Traceback" not in ran.err
    with made.client() as client:
        client.me()


def test_a_stale_pid_file_is_replaced(made: Daemon) -> None:
    """Our own process, but not started when the note says: its id was used again."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    made.state_dir.mkdir(parents=True)
    note = {"pid": os.getpid(), "start_ticks": 1, "boot_id": boot_id, "url": "http://127.0.0.1:1"}
    (made.state_dir / "fairlead.pid").write_text(json.dumps(note))
    made.start()
    assert made.process is not None
    assert json.loads((made.state_dir / "fairlead.pid").read_text())["pid"] == made.process.pid


@pytest.mark.parametrize(
    "left", ['{"pid": 1, "start_ticks": 5, "boot_id": "x", "url": "http://x"}', "garbage", "{}", ""]
)
def test_a_pid_file_that_says_nothing_of_now_is_nobody(left: str, tmp_path: Path) -> None:
    (tmp_path / "fairlead.pid").write_text(left)
    assert pid_file.running(tmp_path) is None
    pid_file.write(tmp_path, "http://127.0.0.1:1")
    found = pid_file.running(tmp_path)
    assert found is not None
    assert (found.pid, found.url) == (os.getpid(), "http://127.0.0.1:1")
    pid_file.remove(tmp_path)
    assert pid_file.running(tmp_path) is None


def test_a_port_that_is_taken_is_told_with_who_has_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = refused(tmp_path, "--port", str(port))
    assert f"port {port} is taken by " in told
    assert f"(pid {os.getpid()})" in told
    assert f"--port {port + 1}" in told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--bind", "0.0.0.0"), "tokens would cross the network in the clear"),
        (("--bind", "203.0.113.7", "--allow-public"), "this machine has no such address"),
        (("--bind", "no.such.host.invalid", "--allow-public"), "this is no address to listen on"),
        (("--tls-cert", "c.pem"), "TLS needs both a certificate and its key"),
        (("--tls-cert", "c.pem", "--tls-key", "k.pem"), "c.pem: there is no such file"),
        (("--policy", "srft"), "did you mean 'srtf'?"),
        (("--placer", "sprad"), "did you mean 'spread'?"),
        (("--gpus", "-1"), "--gpus: gpus can't be that"),
        (("--config", "none.yaml"), "none.yaml: there is no such file"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_made(tmp_path: Path, args: tuple[str, ...], told: str) -> None:
    assert told in refused(tmp_path, *args)


def test_nodes_without_virtual_gpus_are_refused(tmp_path: Path) -> None:
    ran = run("up", "--port", "0", "--nodes", "2", cwd=tmp_path, env=environment(tmp_path / "state"))
    assert ran.code == 2
    assert "several nodes on one machine need virtual GPUs" in ran.err


def test_a_misspelt_variable_is_pointed_out(tmp_path: Path) -> None:
    assert "did you mean FAIRLEAD_PORT?" in refused(tmp_path, "--policy", "srft", FAIRLEAD_PROT="1")


def test_a_cluster_file_brings_its_tenants(made: Daemon) -> None:
    made.folder.mkdir()
    (made.folder / "cluster.yaml").write_text(
        "groups: [{count: 2, gpus: 2}]\ntenants: {vision: {quota_gpus: 1}}\n", encoding="utf-8"
    )
    made.args = ("--cluster", "cluster.yaml")
    made.start()
    with made.client() as client:
        assert {tenant.name: tenant.quota_gpus for tenant in client.tenants()}["vision"] == 1
        assert client.cluster().gpus == 4


def test_a_policy_that_was_set_stays_until_the_settings_change(tmp_path: Path) -> None:
    def of(policy: str) -> tuple[str, str]:
        return chosen(Config(tmp_path, policy=policy), store)

    store = Store(tmp_path / "fairlead.db")
    assert of("fifo") == ("fifo", "consolidate")
    store.standing.put_settings({"policy": "srtf", "placer": "spread"})  # `fairlead policy set`
    assert of("fifo") == ("srtf", "spread")
    assert of("las") == ("las", "consolidate")
    assert of("las") == ("las", "consolidate")
    store.close()


def test_tls_is_served_and_verified(made: Daemon) -> None:
    made.folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=made.folder, check=True, capture_output=True,
    )  # fmt: skip
    made.args = ("--gpus", "1", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    made.start()
    assert made.url.startswith("https://127.0.0.1:")
    token = (made.state_dir / "token").read_text()
    with Client(made.url, token, ca=made.folder / "cert.pem") as client:
        assert client.cluster().gpus == 1
    stranger = made("jobs", "--server", made.url)
    assert stranger.code == 1
    assert "can't be trusted" in stranger.err
    assert made("jobs", "--server", made.url, SSL_CERT_FILE=str(made.folder / "cert.pem")).code == 0


def test_another_program_is_not_taken_for_a_scheduler(tmp_path: Path) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            ran = run("jobs", "--server", url, cwd=tmp_path, env=environment(tmp_path / "state"))
        finally:
            server.shutdown()
            thread.join()
    assert ran.code == 1
    assert f"what answers at {url} is no fairlead scheduler" in ran.err


def test_a_state_directory_that_can_t_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run("up", "--port", "0", cwd=tmp_path, env=environment(tmp_path / "file" / "state"))
    assert ran.code == 2
    assert "the state directory can't be used" in ran.err


def test_a_restart_is_outlasted_by_whoever_waits(tmp_path: Path) -> None:
    with daemon(tmp_path / "up") as up:
        port = up.url.rpartition(":")[2]
        line = f"echo early; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo late; exit 5"
        id = up.submit("--", "sh", "-c", line)
        up.wait_for(id, "running")
        with (
            up.popen("logs", "-f", id) as logs,
            up.popen("events", "-f", id, "--since", "0", "-o", "json") as events,
        ):
            assert events.stdout is not None
            assert logs.stdout is not None
            # both have begun
            assert json.loads(events.stdout.readline())["kind"] == "submit"
            assert logs.stdout.readline() == "early\n"
            up.signal(signal.SIGKILL)
            up.args = ("--gpus", "8", "--port", port)
            up.start()
            (tmp_path / "go").touch()
            assert logs.communicate(timeout=60)[0] == "late\n"
            seen = [json.loads(line)["seq"] for line in events.stdout]
            events.wait(60)
        assert seen == sorted(set(seen))
        until(lambda: up.state(id) == "failed")
