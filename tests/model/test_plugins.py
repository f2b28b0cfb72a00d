"""Plug-ins by name, in a package of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fairlead.model import plugins
from fairlead.model.errors import InputError
from fairlead.model.plugins import Plugins

_FILES = {"__init__": "", "big_one": "class A:\n    name = 'big-one'\n", "rest": "class B:\n    name = 'small'\n"}


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    folder = tmp_path / "shelf"
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Plugins("book", import_module("shelf"), "fairlead.books", lambda one: isinstance(one, type))
    for name in [name for name in sys.modules if name.partition(".")[0] == "shelf"]:
        del sys.modules[name]


def register(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    made = EntryPoints(EntryPoint(name, value, "fairlead.books") for name, value in entries.items())
    monkeypatch.setattr(plugins, "entry_points", lambda group: made.select(group=group))


def test_what_has_the_name_of_its_module_is_found_without_looking_at_the_others(known: Plugins) -> None:
    assert known.find("big-one").name == "big-one"
    assert "shelf.rest" not in sys.modules


def test_the_others_are_looked_through_where_no_module_has_the_name(known: Plugins) -> None:
    assert known.find("small").name == "small"
    assert list(known.all) == ["big-one", "small"]


def test_a_name_that_nobody_has_is_told_with_the_nearest(known: Plugins) -> None:
    with pytest.raises(InputError, match=r"no book is called 'bigone'; did you mean 'big-one'\?"):
        known.find("bigone")


def test_what_is_registered_takes_the_place_of_ours(known: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = type("Elsewhere", (), {"name": "big-one"})
    monkeypatch.setattr(plugins, "Elsewhere", elsewhere, raising=False)
    register(monkeypatch, anything="fairlead.model.plugins:Elsewhere")
    assert known.find("big-one") is elsewhere
    assert list(known.all) == ["big-one", "small"]
