"""What can go wrong between a client and the scheduler. A mistake in a job is an InputError before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """Any of the below."""


class Unreachable(ClientError):
    """No answer came: nothing listens there, or the connection broke and trying again did not help."""


class UnexpectedAnswer(ClientError):
    """Something answered, but not as a scheduler does: another program's port, or another version."""


class ApiError(ClientError):
    """The scheduler said no. The fields are those of its problem document (RFC 9457)."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        *,
        type: str = "about:blank",
        field: str | None = None,
        value: object = None,
        accepts: str | None = None,
        hint: str = "",
    ) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
        self.field = field
        self.value = value
        self.accepts = accepts
        self.hint = hint  #: what this client adds, such as where its token came from
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.detail or self.title
        if self.status >= 500 and self.detail:  # by itself it may be about something that only the scheduler knows
            text = f"{self.title}: {self.detail}"
        # a detail may already say these: an InputError's own words do
        if self.field and repr(self.field) not in text:
            text = f"{self.field}: {text}"
        if self.value is not None and f"got {self.value!r}" not in text:
            text += f"; got {self.value!r}"
        if self.accepts and self.accepts not in text:
            text += f"; expected {self.accepts}"
        return f"{text}; {self.hint}" if self.hint else text

    @property
    def is_mistake(self) -> bool:
        """The request would be refused again; otherwise it may be the scheduler's trouble, and pass."""
        return 400 <= self.status < 500 and self.status != 429

    @classmethod
    def of_problem(cls, status: int, problem: Mapping[str, Any], hint: str = "") -> ApiError:
        def text(key: str) -> str:
            value = problem.get(key)
            return value if isinstance(value, str) else ""

        return cls(
            status,
            text("title") or f"the scheduler answered with status {status}",
            text("detail"),
            type=text("type") or "about:blank",
            field=text("field") or None,
            value=problem.get("value"),
            accepts=text("accepts") or None,
            hint=hint,
        )
