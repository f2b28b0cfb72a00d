"""What both clients share: whom they talk to and as whom, what a call looks like on the wire, when it is tried again, and what
an answer means. Nothing here waits or sends."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from fairlead import __version__
from fairlead.client.calls import Call
from fairlead.client.errors import ApiError, ClientError, UnexpectedAnswer, Unreachable
from fairlead.model.errors import InputError
from fairlead.model.hosts import is_loopback
from fairlead.model.token_file import read_token_file

T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:7878"
#: seconds before each further try: a scheduler that is being restarted is back within them, one that is not there costs little
PAUSES_S = (0.1, 0.2, 0.4)
#: of a stream that has begun: about a minute, so that a scheduler that is being restarted does not end it
STREAM_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, *(5.0,) * 10)
LONGEST_PAUSE_S = 10.0  #: that we wait because the scheduler asks for it
#: a stream that is silent for longer is dead: the scheduler says something every 15 s
SILENCE_S = 45.0


@dataclass(frozen=True)
class Token:
    text: str  #: "": none was found
    source: str  #: for people

    def __repr__(self) -> str:
        return f"Token(from {self.source})"


def find_token(given: str | None, environ: Mapping[str, str]) -> Token:
    """The argument, FAIRLEAD_TOKEN, or the token file that `fairlead up` made for this user."""
    if given is not None:
        return Token(given.strip(), "the one that was given")
    if environ.get("FAIRLEAD_TOKEN"):
        return Token(environ["FAIRLEAD_TOKEN"].strip(), "FAIRLEAD_TOKEN")
    return token_from(_token_path(environ), must_exist=bool(environ.get("FAIRLEAD_TOKEN_FILE")))


def token_from(path: Path, *, must_exist: bool = False) -> Token:
    """A file that nobody named and that is not there is no token, not an error: there may be no scheduler either, which is
    then the thing to say."""
    if not must_exist and not path.exists():
        return Token("", f"{path}, which does not exist")
    return Token(read_token_file(path), str(path))


def _token_path(environ: Mapping[str, str]) -> Path:
    if environ.get("FAIRLEAD_TOKEN_FILE"):
        return Path(environ["FAIRLEAD_TOKEN_FILE"]).expanduser()
    if environ.get("FAIRLEAD_STATE_DIR"):
        return Path(environ["FAIRLEAD_STATE_DIR"]).expanduser() / "token"
    state = Path(environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local/state") / "fairlead" / "token"


class Connection:
    """Where to, as whom, how long to wait for an answer."""

    def __init__(
        self, url: str | None, token: str | Token | None, ca: str | Path | None, allow_public: bool, timeout_s: float
    ) -> None:
        self.url = _checked_url(url or os.environ.get("FAIRLEAD_SERVER") or DEFAULT_URL, allow_public)
        self.token = token if isinstance(token, Token) else find_token(token, os.environ)
        self.now_s: float | None = None  #: the scheduler's clock, as of its last answer
        self._ca = ca
        self._timeout_s = timeout_s

    def http_options(self) -> dict[str, Any]:
        """For httpx.Client and httpx.AsyncClient."""
        headers = {"User-Agent": f"fairlead/{__version__}", "Accept": "application/json"}
        if self.token.text:
            headers["Authorization"] = f"Bearer {self.token.text}"
        return {
            "base_url": str(self.url),
            "headers": headers,
            "timeout": self._timeout_s,
            "verify": _context(self._ca) if self.url.scheme == "https" else True,
            # a proxy has no business between a program and a scheduler on the same machine
            "trust_env": not is_loopback(self.url.host),
            "follow_redirects": False,  # a token goes nowhere but where it was meant to go
        }

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """For `build_request`."""
        made: dict[str, Any] = {
            "method": call.method,
            "url": call.path,
            "params": dict(call.params),
            "headers": dict(call.headers),
        }
        if call.body is not None:
            made["json"] = call.body
        return made

    def answer(self, call: Call[T], response: httpx.Response) -> T:
        """What the call is for, or ApiError."""
        self.check(response)
        if call.text:
            return call.parse(response.text)
        if not response.content:
            return call.parse({})
        return call.parse(self._json(response))

    def check(self, response: httpx.Response) -> None:
        """Raise for anything but success; the response must have been read."""
        now = response.headers.get("X-Fairlead-Now")
        if now is not None:
            with suppress(ValueError):
                self.now_s = float(now)
        if response.is_success:
            return
        content = response.headers.get("Content-Type", "").partition(";")[0]
        if content not in ("application/problem+json", "application/json"):
            raise UnexpectedAnswer(
                f"what answers at {self.url} is no fairlead scheduler: status {response.status_code}, {content or 'no text'}"
            )
        problem = self._json(response)
        raise ApiError.of_problem(
            response.status_code, problem if isinstance(problem, dict) else {}, self._hint(response.status_code)
        )

    def _json(self, response: httpx.Response) -> Any:
        try:
            return json.loads(response.content)
        except ValueError:
            raise UnexpectedAnswer(f"what answers at {self.url} is no fairlead scheduler: it sent no JSON") from None

    def _hint(self, status: int) -> str:
        if status != 401:
            return ""
        if self.token.text:
            return f"the token is from {self.token.source}"
        return f"no token was found: FAIRLEAD_TOKEN is not set, and the file would be {self.token.source}"

    # -- trying again -------------------------------------------------------------------------------------------------------

    def pause_after(self, call: Call[Any], error: httpx.TransportError, pauses: Iterator[float]) -> float:
        """How long to wait before the call is sent again; raises where it must not be, or has been often enough."""
        # one that never reached anybody has done nothing
        harmless = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        pause_s = next(pauses, None) if harmless or call.repeatable else None
        if pause_s is None or _hopeless(error):
            raise self.unreachable(error) from None
        return pause_s

    def pause_asked(self, response: httpx.Response, pauses: Iterator[float]) -> float | None:
        """The scheduler asks to come back later: too many requests. None: this is an answer."""
        if response.status_code != 429:
            return None
        pause_s = next(pauses, None)
        if pause_s is None:
            return None
        try:
            asked_s = float(response.headers.get("Retry-After", pause_s))
        except ValueError:
            asked_s = pause_s
        return min(max(asked_s, pause_s), LONGEST_PAUSE_S)

    def unreachable(self, error: httpx.TransportError) -> ClientError:
        if isinstance(error, httpx.ConnectError):
            if _hopeless(error):
                return Unreachable(f"the TLS connection to {self.url} can't be trusted: {error}")
            here = is_loopback(self.url.host)
            what = "start one with `fairlead up`" if here else "is it running there, and is this the right address?"
            return Unreachable(f"no scheduler answers at {self.url}; {what}")
        if isinstance(error, httpx.TimeoutException):
            return Unreachable(f"the scheduler at {self.url} did not answer within {self._timeout_s:g} s")
        return Unreachable(f"the connection to the scheduler at {self.url} broke: {error or type(error).__name__}")


def _hopeless(error: httpx.TransportError) -> bool:
    """A certificate that is not trusted now will not be in a moment."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, httpx.UnsupportedProtocol)


def _checked_url(text: str, allow_public: bool) -> httpx.URL:
    accepts = "such as http://127.0.0.1:7878 or https://scheduler.example.org"
    try:
        url = httpx.URL(text.rstrip("/"))
    except (httpx.InvalidURL, TypeError):
        raise InputError("this is no address of a scheduler", value=text, accepts=accepts) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError("this is no address of a scheduler", value=text, accepts=accepts)
    if url.scheme == "http" and not is_loopback(url.host) and not allow_public:
        raise InputError(
            "the token would cross the network in the clear",
            value=text,
            accepts="https://..., or allow_public where something else encrypts",
        )
    return url


def _context(ca: str | Path | None) -> ssl.SSLContext:
    """What browsers trust, what this machine trusts (or SSL_CERT_FILE and SSL_CERT_DIR instead of both), and `ca`."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    # a certificate that is named itself is trusted, whoever signed it
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if ca is not None:
        try:
            context.load_verify_locations(str(ca))
        except (OSError, ssl.SSLError) as error:
            raise InputError(
                f"this certificate can't be used: {error}", file=str(ca), accepts="certificates in PEM"
            ) from None
    return context
