"""Programs begin as they were ordered to, once, and what becomes of them is told as it was."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
from pathlib import Path

import pytest

from fairlead.runtime.protocols import Order, Place, ReportKind

from .harness import ONE, Bench, local, python

SHOW = python("import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.umask(0)]))")


def run(path: Path, *command: str, settings: dict[str, object] | None = None, **more: object) -> Bench:
    async def scenario() -> Bench:
        async with local(path, **(settings or {})) as bench:
            await bench.run(*command, **more)
            return bench

    return asyncio.run(scenario())


def test_a_program_sees_its_gpus_its_directory_and_its_environment(path: Path, tmp_path: Path) -> None:
    places = [Place("node-0", (3, 5))]
    bench = run(
        path, *SHOW, places=places, env={"LEARNING_RATE": "0.1"}, workdir=str(tmp_path), settings={"umask": 0o27}
    )
    env, workdir, umask = json.loads(bench.log())
    want = {
        "CUDA_VISIBLE_DEVICES": "3,5",
        "FAIRLEAD_GPUS": "3,5",
        "FAIRLEAD_JOB_ID": "job",
        "FAIRLEAD_RUN": "1",
        "LEARNING_RATE": "0.1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
    }
    assert {name: env.get(name) for name in want} == want
    assert (workdir, umask) == (str(tmp_path), 0o27)
    assert "FAIRLEAD_RESUME" not in env


def test_the_schedulers_own_secrets_are_not_in_a_jobs_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_DATABASE_URL", "postgresql://secret")
    assert "secret" not in run(path, *SHOW).log()


def test_a_cpu_job_sees_no_gpu(path: Path) -> None:
    assert json.loads(run(path, *SHOW, places=[Place("node-0", ())]).log())[0]["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_exit_codes_are_told(path: Path, code: int) -> None:
    end = run(path, "sh", "-c", f"exit {code}").seen[-1]
    assert (end.exit_code, end.signal) == (code, None)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_the_signal_that_ended_it_is_told(path: Path, name: str) -> None:
    end = run(path, "sh", "-c", f"kill -{name[3:]} $$").seen[-1]
    assert (end.exit_code, end.signal) == (None, signal.Signals[name])


def test_times_are_those_of_the_clock_on_the_wall(path: Path) -> None:
    started, ended = run(path, "sleep", "0.2").seen
    assert 0.15 < ended.time_s - started.time_s < 5
    assert abs(os.stat(path).st_mtime - started.time_s) < 60


def test_a_program_begins_with_no_signal_ignored_and_nothing_of_ours_open(path: Path) -> None:
    log = run(path, "sh", "-c", "grep SigIgn /proc/self/status; ls /proc/self/fd").log()
    _, ignored, *descriptors = log.split()
    ours_to_set = sum(1 << (number - 1) for number in signal.valid_signals())  # the C library keeps two to itself
    assert int(ignored, 16) & ours_to_set == 0
    assert descriptors == ["0", "1", "2", "3"]  # 3 is the listing itself


# -- once ---------------------------------------------------------------------------------------------------------------


def test_an_order_that_is_given_many_times_is_carried_out_once(path: Path, tmp_path: Path) -> None:
    order = Order("job", 1, ["sh", "-c", f"echo ran >>{tmp_path}/count; sleep 0.2"], ONE)

    async def scenario() -> None:
        async with local(path) as bench:
            await asyncio.gather(*(bench.executor.start(order) for _ in range(20)))
            await bench.wait(ReportKind.ENDED)
            await bench.executor.start(order)
        async with local(path) as bench:
            await bench.executor.start(order)
            await bench.run("true", job="other")
            assert [report.job for report in bench.seen] == ["other", "other"]

    asyncio.run(scenario())
    assert (tmp_path / "count").read_text() == "ran\n"


def test_an_end_that_is_forgotten_leaves_its_log_and_nothing_else(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin("sleep", "60", job="still-running")
            await bench.run("echo", "hello")
            for job in ("job", "still-running", "never-heard-of"):
                await bench.executor.forget(job, 1)
            assert [found.job for found in await bench.executor.found()] == ["still-running"]
            assert os.listdir(path / "runs") == ["still-running@1"]
            assert bench.log() == "hello\n"

    asyncio.run(scenario())


@pytest.mark.parametrize("job", ["../../escape", ".hidden", "a/b", "große Läufe [3]", "-rf", "x" * 80, "é" * 40])
def test_any_name_of_a_job_stays_inside_the_directory(path: Path, job: str) -> None:
    before = set(path.parent.iterdir())
    assert run(path, "true", job=job).seen[-1].job == job
    assert set(path.parent.iterdir()) - before == {path}
    assert len(os.listdir(path / "runs")) == len(os.listdir(path / "logs")) == 1


# -- what can't begin says why ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "more", "says"),
    [
        (["no-such-program"], {}, "the command 'no-such-program' can't be run: there is no such program in"),
        (["/no/such/program"], {}, "the command '/no/such/program' can't be run: No such file or directory"),
        (["/etc/passwd"], {}, "the command '/etc/passwd' can't be run: Permission denied"),
        (
            ["true"],
            {"workdir": "/no/such"},
            "the working directory '/no/such' can't be used: No such file or directory",
        ),
        (["true"], {"log": "/dev/null/log"}, "the log '/dev/null/log' can't be written: Not a directory"),
        (["true"], {"user": "no-such-user"}, "this machine has no user 'no-such-user'"),
        (["true"], {"checkpoint_signal": "SIGSAVE"}, "there is no signal 'SIGSAVE'"),
        (["true"], {"places": [Place("node-9", (0,))]}, "no node is called 'node-9'; did you mean 'node-0'?"),
        (["true"], {"places": [Place("node-0", (8,))]}, "node 'node-0' has 8 GPUs; it was to use [8]"),
        (["true"], {"places": []}, "it has no place to run at"),
        (["true"], {"env": {"A=B": ""}}, "'A=B' is no name for an environment variable"),
        (["a\0b"], {}, "has a NUL character in it"),
        ([], {}, "it has no command"),
        (["true"], {"job": "x" * 81}, "a job's id has 1 to 80 bytes"),
    ],
)
def test_what_can_not_begin_says_why(path: Path, command: list[str], more: dict[str, object], says: str) -> None:
    async def scenario() -> str:
        async with local(path) as bench:
            message = await bench.refused(*command, **more)
            assert [report.kind for report in bench.seen] == [ReportKind.FAILED_TO_START]
            return message

    assert says in asyncio.run(scenario())


def test_a_script_whose_interpreter_is_missing_is_not_said_to_be_missing_itself(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)

    async def scenario() -> str:
        async with local(path) as bench:
            return await bench.refused(str(script))

    assert "names an interpreter that does not exist" in asyncio.run(scenario())


# -- limits and users --------------------------------------------------------------------------------------------------------


def test_a_job_gets_no_more_memory_than_it_asked_for_and_is_told_how_that_is_done(path: Path) -> None:
    take = python("x = bytearray(60 << 20); print('60', flush=True); y = bytearray(400 << 20); print('460')")
    bench = run(path, *take, memory_mib=200)
    started, ended = bench.seen
    if "cgroup" in started.message:
        assert "memory limited to 200 MiB for the job" in started.message
        assert (ended.signal, ended.message) == (signal.SIGKILL, "out of memory: it may use 200 MiB")
    else:
        assert started.message == "memory limited to 200 MiB, divided among its processes (RLIMIT_DATA)"
        assert (ended.exit_code, "MemoryError" in bench.log()) == (1, True)
    assert bench.log().startswith("60\n")
    assert "460" not in bench.log()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change users")
def test_a_job_runs_as_the_user_who_submitted_it(path: Path, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    script = "id -un; id -gn; echo $HOME $USER; touch here 2>&1; echo done"
    bench = run(path, "sh", "-c", script, user="nobody", workdir="/")
    lines = bench.log().splitlines()
    assert lines[0] == "nobody"
    assert lines[2] == f"{nobody.pw_dir} nobody"
    assert "Permission denied" in lines[3]
    assert os.stat(path / "logs/job.log").st_uid == nobody.pw_uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change users")
def test_a_directory_that_the_user_may_not_enter_is_refused(path: Path) -> None:
    async def scenario() -> str:
        async with local(path) as bench:
            return await bench.refused("true", user="nobody", workdir=str(path / "runs"))

    assert "can't be used: Permission denied" in asyncio.run(scenario())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change users")
def test_a_link_that_a_user_planted_is_not_followed_to_where_the_user_may_not_write(path: Path, tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    directory = Path("/tmp") / f"fairlead-test-{os.getpid()}"
    directory.mkdir()
    try:
        os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        target = tmp_path / "of-root"
        (directory / "job.log").symlink_to(target)

        async def scenario() -> str:
            async with local(path) as bench:
                return await bench.refused("true", user="nobody", log=str(directory / "job.log"), workdir="/")

        assert "can't be written" in asyncio.run(scenario())
        assert not target.exists()
    finally:
        (directory / "job.log").unlink()
        directory.rmdir()
