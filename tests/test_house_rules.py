"""House rules, run as tests: what may be used where, what numbers must agree, what must be documented."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from fairlead.kernels import columns, rows
from fairlead.model.event import EventKind
from fairlead.model.reason import Reason
from fairlead.placement.base import Placer
from fairlead.placement.registry import placers
from fairlead.policy.base import CompiledPlanner, Planner, QueuePolicy
from fairlead.policy.registry import policies
from fairlead.state.transitions import JobState

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fairlead"
FILES = sorted(SOURCE.rglob("*.py"))
#: time and randomness are arguments in all of these
TIMELESS = ("model", "kernels", "state", "policy", "placement", "core", "record", "runtime")


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def files_of(*packages: str) -> list[Path]:
    return [path for path in FILES if path.relative_to(SOURCE).parts[0] in packages]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def calls(path: Path) -> Iterator[str]:
    """What is called, as it is written: `time.time`, `print`."""
    return (ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


# -- what may be used where ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", TIMELESS)
def test_nothing_below_the_simulator_reads_a_clock_or_draws_a_number_of_its_own(package: str) -> None:
    for path in files_of(package):
        used = {name.partition(".")[0] for name in imports(path)}
        assert not used & {"time", "datetime", "random", "secrets", "uuid"}, name_of(path)
        assert not [call for call in calls(path) if "random." in call], name_of(path)


def test_nothing_asks_what_time_it_is() -> None:
    """Measuring how long something took is another matter: `perf_counter` is for that. Backends live on the wall clock, and the
    live scheduler has one clock, which is asked for `now` by everybody else."""
    clock = re.compile(r"\b(time\.time|time\.monotonic|time_ns|datetime\.now|utcnow|today|gmtime|localtime)$")
    for path in set(FILES) - set(files_of("backends")) - {SOURCE / "server" / "clock.py"}:
        asked = [call for call in calls(path) if clock.search(call) and "." in call]
        assert not asked, f"{name_of(path)} calls {asked}"


def test_random_numbers_come_from_a_generator_that_was_handed_a_seed() -> None:
    for path in FILES:
        assert "random" not in set(imports(path)), name_of(path)
        drawn = {call for call in calls(path) if re.search(r"\b(np|numpy)\.random\.", call)}
        assert not {call for call in drawn if call.rpartition(".")[2] not in ("Generator", "PCG64")}, name_of(path)


def test_only_the_command_line_prints() -> None:
    assert [name_of(path) for path in FILES if path not in files_of("cli") and "print" in set(calls(path))] == []


def test_no_code_asks_which_policy_or_placer_it_runs() -> None:
    """One signature per kind of plug-in; what differs is a trait, not a name."""
    names = {*policies(), *placers()}
    for path in files_of("model", "kernels", "state", "policy", "placement", "core", "runtime"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Compare):
                for side in (node.left, *node.comparators):
                    assert not (isinstance(side, ast.Constant) and side.value in names), (
                        f"{name_of(path)}:{node.lineno}"
                    )


def test_packages_import_each_other_only_as_the_contracts_say() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    contracts = (ROOT / ".importlinter").read_text(encoding="utf-8")
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert packages == set(re.findall(r"fairlead\.(\w+)$", contracts, re.MULTILINE)), "a package has no contract"


# -- numbers that are written down twice ----------------------------------------------------------------------------------------


def test_the_kinds_of_journal_rows_have_the_same_numbers_in_the_core() -> None:
    kinds = {name.removesuffix("_ROW"): value for name, value in vars(rows).items() if name.endswith("_ROW")}
    assert kinds == {kind.name: int(kind) for kind in EventKind}


def test_the_reasons_that_the_core_gives_have_the_same_numbers() -> None:
    found = 0
    for path in files_of("kernels"):
        for name, value in vars(import_module(f"fairlead.kernels.{path.stem}")).items():
            if name in Reason.__members__ and isinstance(value, int):
                assert value == Reason[name], f"{name} in kernels/{path.name}"
                found += 1
    assert found >= 2


def test_the_states_of_a_job_have_the_same_numbers_in_the_core() -> None:
    assert all(getattr(columns, state.name) == state for state in JobState)


@pytest.mark.parametrize("prefix", ["N_", "U_", "P_", "S_", "C_", "J_", "K_", "T_", "G_", "R_"])
def test_no_two_columns_of_a_table_have_the_same_number(prefix: str) -> None:
    numbers = [value for name, value in vars(columns).items() if name.startswith(prefix) and isinstance(value, int)]
    assert len(set(numbers)) == len(numbers)


# -- what must be said ------------------------------------------------------------------------------------------------------------


def test_every_module_says_what_it_holds() -> None:
    assert [name_of(path) for path in FILES if not ast.get_docstring(tree(path)) and path.name != "__main__.py"] == []


@pytest.mark.parametrize("kind", ["policy", "placement"])
def test_every_policy_and_placer_says_in_one_line_what_it_does(kind: str) -> None:
    found = 0
    for path in files_of(kind):
        module = ".".join(("fairlead", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for value in vars(import_module(module)).values():
            is_plug = isinstance(value, type) and issubclass(value, QueuePolicy | Planner | CompiledPlanner | Placer)
            if is_plug and value.__module__ == module and path.stem != "base":
                found += 1
                says = value.__doc__ or ""
                assert says, f"{value.__name__} has no docstring"
                assert "\n" not in says, f"{value.__name__} says more than one line"
                assert says.endswith("."), f"{value.__name__} does not say a sentence"
    assert found >= 7


def test_no_file_needs_a_table_of_contents() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > 500} == {}


RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def test_decision_records_are_numbered_without_gaps() -> None:
    assert len(RECORDS) >= 5
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("path", RECORDS, ids=[path.stem for path in RECORDS])
def test_a_decision_record_has_context_choice_alternatives_and_consequences(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Choice", "Alternatives", "Consequences"]
    assert re.match(rf"# {int(path.name[:4])}\. \S", text)
    assert len(text.splitlines()) <= 60, "longer than a page"


def test_documents_point_only_at_files_that_are_there() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} points at {target}"
