"""Output goes to a log that is rotated, and no trouble with the log ever reaches the job."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.backends.local.logs import Log, Pump
from fairlead.runtime.protocols import ReportKind

from .harness import local, python


def test_a_log_is_rotated_by_size_and_nothing_is_lost_on_the_way(path: Path) -> None:
    async def scenario() -> None:
        async with local(path, log_limit_bytes=20_000, log_keep=3) as bench:
            await bench.run(*python("print(*(f'{i:05}' for i in range(30_000)), sep='\\n')"))

    asyncio.run(scenario())
    files = [path / f"logs/job.log{end}" for end in (".3", ".2", ".1", "")]
    assert sorted(os.listdir(path / "logs")) == sorted(file.name for file in files)
    texts = [file.read_text() for file in files]
    assert all(len(text) <= 20_000 for text in texts)
    kept = "".join(texts).splitlines()
    assert 10_000 < len(kept) < 14_000
    assert [int(line) for line in kept] == list(range(30_000 - len(kept), 30_000))


def test_runs_of_one_job_follow_each_other_in_its_log(path: Path) -> None:
    async def scenario() -> str:
        async with local(path) as bench:
            for run in (1, 2):
                await bench.run("echo", f"run {run}", run=run)
            return bench.log()

    assert asyncio.run(scenario()) == "run 1\nrun 2\n"


def test_only_its_owner_reads_a_log(path: Path) -> None:
    async def scenario() -> None:
        async with local(path) as bench:
            await bench.run("echo", "secret")

    asyncio.run(scenario())
    assert [os.stat(place).st_mode & 0o777 for place in (path, path / "logs", path / "logs/job.log")] == [
        0o700,
        0o700,
        0o600,
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_stops_neither_the_job_nor_its_log_later_on(path: Path, small_disk: Path, tmp_path: Path) -> None:
    """The job writes more than fits, goes on, and what it writes when there is room again is in the log."""
    go_on = tmp_path / "go-on"
    program = (
        "import os, time\n"
        "for i in range(200): print('x' * 9_999)\n"
        f"open('{tmp_path}/wrote', 'w').close()\n"
        f"while not os.path.exists('{go_on}'): time.sleep(0.01)\n"
        "print('there is room again')\n"
    )

    async def scenario() -> None:
        async with local(path) as bench:
            await bench.begin(*python(program), log=str(small_disk / "logs" / "job.log"))
            while not (tmp_path / "wrote").exists():
                await asyncio.sleep(0.01)
            log = small_disk / "logs" / "job.log"
            assert 300_000 < log.stat().st_size < 600_000
            os.truncate(log, 0)
            go_on.touch()
            end = await bench.wait(ReportKind.ENDED)
            assert end.exit_code == 0
            text = log.read_text()
            assert "bytes of output are missing here: No space left on device]" in text
            assert text.endswith("there is room again\n")

    asyncio.run(scenario())


def test_a_result_is_kept_when_the_disk_of_the_state_is_full(small_disk: Path, tmp_path: Path) -> None:
    state = small_disk / "state"

    async def scenario() -> None:
        async with local(state) as bench:
            await bench.begin("sh", "-c", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 9")
            fill(small_disk / "rest")
            (tmp_path / "go").touch()
            assert (await bench.wait(ReportKind.ENDED)).exit_code == 9
            message = await bench.refused("true", job="another")
            assert "No space left on device" in message
        async with local(state) as bench:
            (found,) = await bench.executor.found()
            assert found.report
            assert found.report.exit_code == 9

    asyncio.run(scenario())


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as sink:
        for size in (4096, 1):
            try:
                while True:
                    sink.write(b"\0" * size)
            except OSError:
                continue


# -- the parts by themselves ---------------------------------------------------------------------------------------------------


def test_a_log_that_can_not_be_rotated_grows_on(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "job.log"), 1024, 1)
    log.open()
    (tmp_path / "job.log.1").mkdir()  # in the way
    for _ in range(5):
        log.write(b"x" * 600)
    log.close()
    assert (tmp_path / "job.log").stat().st_size == 3000


def test_nothing_but_a_plain_file_is_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=r"no plain file|symbolic links|No such device"):
            Log(str(tmp_path / name), 1024, 1).open()
    assert not (tmp_path / "elsewhere").exists()


def test_a_line_without_end_is_passed_on_in_pieces(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "job.log"), 1 << 30, 1)
    log.open()
    reader, writer = os.pipe()
    pump = Pump(reader, log, "[0] ")
    for _ in range(4):
        os.write(writer, b"y" * 40_000)
        assert pump.turn()
    os.close(writer)
    assert not pump.turn()
    pump.drain()
    log.close()
    text = (tmp_path / "job.log").read_text()
    assert text.count("y") == 160_000
    assert text.count("[0] ") == text.count("\n") == 2
