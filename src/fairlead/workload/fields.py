"""From what pydantic says of a document to the one error that people read: the field, its value and what would do."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from fairlead.model.errors import InputError


class Unfit(ValueError):
    """What a field's own reader raises: pydantic adds the place."""

    def __init__(self, what: str, accepts: str) -> None:
        super().__init__(what)
        self.what = what
        self.accepts = accepts


def field_error(error: ValidationError, model: type[BaseModel], words: Mapping[str, str] | None = None) -> InputError:
    """The first thing wrong. `words` says for names that other tools use where the thing is said here."""
    first = error.errors(include_url=False)[0]
    loc = first["loc"]
    column = ".".join(str(part) for part in loc)
    own = first.get("ctx", {}).get("error")
    if isinstance(own, Unfit):
        return InputError(own.what, column=column or None, value=_shown(first["input"]), accepts=own.accepts)
    if first["type"] == "extra_forbidden":
        known = sorted(_model_at(model, loc[:-1]).model_fields)
        return InputError(
            f"there is no field {str(loc[-1])!r}{_hint(str(loc[-1]), known, model, words or {})}",
            column=column,
            accepts="one of " + ", ".join(known),
        )
    if first["type"] == "missing":
        return InputError("the field is missing", column=column, accepts=f"{loc[-1]}: ...")
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        keys = sorted(_model_at(model, loc).model_fields)
        accepts = "fields such as " + ", ".join(keys[:6])
        return InputError("this is no mapping", column=column or None, value=_shown(first["input"]), accepts=accepts)
    message = first["msg"][:1].lower() + first["msg"][1:]
    return InputError(message, column=column or None, value=_shown(first["input"]))


def _hint(name: str, known: list[str], model: type[BaseModel], words: Mapping[str, str]) -> str:
    if name in words:
        return f"; {words[name]}"
    for key, nested in _nested(model).items():
        if name in nested.model_fields and name not in known:
            return f" here: it stands under {key}"
    if name in model.model_fields and name not in known:
        return " here: it stands at the top"
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _nested(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    kinds = {key: field.annotation for key, field in model.model_fields.items()}
    return {key: kind for key, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseModel)}


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    for part in loc:
        model = _nested(model).get(str(part), model)
    return model


def _shown(value: Any) -> object:
    """Short values only: an error is a line, not a document."""
    return value if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200) else None
