"""Settings: which layer wins, how each is read, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.model.errors import InputError
from fairlead.server.config import DAY_S, SETTINGS, Config, described, load_config, strange_variables

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_what_is_built_in_is_private_to_this_machine_and_user(home: dict[str, str], tmp_path: Path) -> None:
    config = load_config({}, home, tmp_path)
    assert config == Config(state_dir=Path(home["HOME"]) / ".local/state/fairlead")
    assert (config.bind, config.sources) == ("127.0.0.1", {})
    assert config.store_url == f"{home['HOME']}/.local/state/fairlead/fairlead.db"
    assert (config.token_path.name, config.logs.name) == ("token", "logs")
    assert config.server_url == "http://127.0.0.1:7878"
    config.check_bind()


def test_flags_stand_over_the_environment_over_the_project_over_the_user(home: dict[str, str], tmp_path: Path) -> None:
    user = write(tmp_path / "home/.config/fairlead/config.yaml", "port: 1\nbind: ::1\npolicy: a\nplacer: a\n")
    project = write(tmp_path / "fairlead.yaml", "port: 2\nbind: ::1\npolicy: b\n")
    config = load_config(
        {"port": 4, "gpus": None}, {**home, "FAIRLEAD_PORT": "3", "FAIRLEAD_BIND": "localhost"}, tmp_path
    )
    assert (config.port, config.bind, config.policy, config.placer) == (4, "localhost", "b", "a")
    assert config.sources == {"port": "--port", "bind": "FAIRLEAD_BIND", "policy": str(project), "placer": str(user)}


def test_xdg_folders_are_used_where_they_are_set(home: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "conf/fairlead/config.yaml", "port: 5\n")
    there = {**home, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "conf")}
    config = load_config({}, there, tmp_path)
    assert (config.state_dir, config.port) == (tmp_path / "state/fairlead", 5)
    assert load_config({}, {**home, "XDG_STATE_HOME": "relative"}, tmp_path).state_dir.is_relative_to(home["HOME"])


def test_values_are_read_with_their_units(home: dict[str, str], tmp_path: Path) -> None:
    write(
        tmp_path / "fairlead.yaml",
        "log_retention: 2d\nlog_size: 5MiB\nmax_request: 64KiB\nallow_public: yes\nrequest_rate: 2.5\nlog_dir: out\n",
    )
    config = load_config({}, home, tmp_path)
    assert (config.log_retention, config.log_size, config.max_request) == (2 * DAY_S, 5 * 2**20, 64 * 2**10)
    assert (config.allow_public, config.request_rate, config.logs) == (True, 2.5, tmp_path / "out")


def test_a_named_file_stands_in_for_the_projects(home: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "fairlead.yaml", "port: 1\n")
    other = write(tmp_path / "other.yaml", "port: 2\n")
    assert load_config({"config": str(other)}, home, tmp_path).port == 2
    assert load_config({}, {**home, "FAIRLEAD_CONFIG": str(other)}, tmp_path).port == 2
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        load_config({"config": tmp_path / "none.yaml"}, home, tmp_path)


BAD = {
    "an unknown key": ("policy: a\nprot: 1\n", r"fairlead.yaml:2, column 'prot': .*did you mean 'port'"),
    "a port of words": ("port: http\n", r"fairlead.yaml:1, column 'port': .*got 'http'.*0 to 65535"),
    "a port too far": ("port: 65536\n", r"0 to 65535"),
    "a list": ("- 1\n", "no file of settings"),
    "a list for a number": ("port: [1]\n", "port can't be that"),
    "a duration of words": ("job_retention: long\n", "2h30m"),
    "neither yes nor no": ("allow_public: perhaps\n", "true or false"),
    "no rate": ("request_rate: 0\n", "above 0"),
    "broken": ("port: [\n", "the YAML is broken at column"),
    "a key twice": ("port: 1\nport: 2\n", "written twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_file_is_told_where_and_what_would_do(case: str, home: dict[str, str], tmp_path: Path) -> None:
    text, words = BAD[case]
    write(tmp_path / "fairlead.yaml", text)
    with pytest.raises(InputError, match=words):
        load_config({}, home, tmp_path)


def test_wrong_flags_and_variables_are_named(home: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'port'"):
        load_config({"prt": 1}, home, tmp_path)
    with pytest.raises(InputError, match="--port: port can't be that; got 'x'"):
        load_config({"port": "x"}, home, tmp_path)
    with pytest.raises(InputError, match="FAIRLEAD_PORT: port can't be that; got '-1'"):
        load_config({}, {**home, "FAIRLEAD_PORT": "-1"}, tmp_path)


def test_a_misspelt_variable_is_pointed_out_and_a_jobs_own_is_not() -> None:
    names = ["FAIRLEAD_PROT", "FAIRLEAD_JOB_ID", "FAIRLEAD_TOKEN", "FAIRLEAD_PORT", "FAIRLEAD_ARRAY_INDEX", "PATH"]
    assert strange_variables(dict.fromkeys(names, "1")) == ["FAIRLEAD_PROT is no setting; did you mean FAIRLEAD_PORT?"]


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.1", "gpu.example.org"])
def test_listening_beyond_this_machine_needs_tls_or_a_word(bind: str, home: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"in the clear.*allow_public"):
        load_config({"bind": bind}, home, tmp_path).check_bind()
    load_config({"bind": bind, "allow_public": True}, home, tmp_path).check_bind()
    load_config({"bind": bind, "tls_cert": "c.pem", "tls_key": "k.pem"}, home, tmp_path).check_bind()
    with pytest.raises(InputError, match="both a certificate and its key"):
        load_config({"tls_cert": "c.pem"}, home, tmp_path).check_bind()


def test_commands_find_the_scheduler_at_what_it_listens_on(home: dict[str, str], tmp_path: Path) -> None:
    def url(**flags: object) -> str:
        return load_config(flags, home, tmp_path).server_url

    assert url(bind="::", port=9) == "http://[::1]:9"
    assert url(bind="0.0.0.0", tls_cert="c", tls_key="k") == "https://127.0.0.1:7878"
    assert url(server="https://gpu.example.org/") == "https://gpu.example.org"


def test_every_setting_says_what_it_does() -> None:
    assert [name for name, _, _ in described()] == list(SETTINGS)
    text = (ROOT / "docs" / "operate.md").read_text()
    assert [name for name, _, says in described() if f"| `{name}` |" not in text or f"| {says} |" not in text] == []
