"""What knows numba, beside slim.py: how functions are compiled, cached and passed to each other.

With NUMBA_DISABLE_JIT=1 every function here is the plain Python one and every result is the same.

numba's cache looks at a function's own file only, not at the files of what it calls, so a change in a callee would be
missed. The cache therefore lives in a folder named after a hash of every source file that may be compiled into the core.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba as _numba
import numpy as np
from numba import types as _types
from numba.core import config as _config

from fairlead.kernels.collecting import no_collecting
from fairlead.kernels.linking import FewSteps, linked_late

# numba types its own interface only in part
numba: Any = _numba
types: Any = _types
config: Any = _config

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).resolve().parents[1]
#: packages whose functions the core calls from compiled code
COMPILED_PACKAGES = ("kernels", "policy", "placement")

DISABLED = bool(config.DISABLE_JIT)


def _source_hash() -> str:
    digest = hashlib.sha256(f"numba {numba.__version__}".encode())
    for package in COMPILED_PACKAGES:
        for file in sorted((PACKAGE / package).rglob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    base = os.environ.get("FAIRLEAD_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache"), "fairlead"
    )
    return Path(base)


CACHE_DIR = _cache_root() / f"compiled-{_source_hash()}"
config.CACHE_DIR = str(CACHE_DIR)

# no kernel allocates, so none needs to count references to the arrays it is given: counting took nine tenths of the time
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}
# what is only called from compiled code becomes part of its callers, and is cached with them
_INNER = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": FewSteps}


def _nobody() -> None:
    """Nobody wants to know."""


#: called before something is compiled that takes long
before_compiling: Callable[[], None] = _nobody

#: functions that are compiled for one signature, that of their annotations, callees before callers
_ONCE: list[Any] = []
#: those of them that are in the cache by themselves
_KEPT: set[Any] = set()


def _once(dispatcher: F) -> F:
    _ONCE.append(dispatcher)
    return dispatcher


def settle_types(
    types_by_name: Mapping[str, Any], root: Callable[..., Any], beside: Callable[[], object] | None = None
) -> None:
    """Compile the inner functions that `root` calls, and those that they call, for the types of their annotations and for
    nothing else. `beside`: waits for somebody else who compiles those that are kept by themselves meanwhile.

    Left to itself, numba compiles a function anew for every literal and every integer width it is called with, and a
    first run takes nearly twice as long.
    """
    if DISABLED:
        return
    settled = _settled(types_by_name, called_by(root))
    missing = {d: arguments for d, arguments in settled.items() if arguments not in d.overloads}
    for dispatcher in missing:
        dispatcher.disable_compile(False)
    with no_collecting(), linked_late():
        if beside is not None:
            theirs = _KEPT & missing.keys()
            mine = called_by(root, theirs) - theirs
            _compile({d: a for d, a in missing.items() if d in mine and not theirs & called_by(d.py_func)})
            beside()
        there = {d for d, arguments in missing.items() if d in _KEPT and _in_index(d, arguments)}
        needed = called_by(root, there)
        _compile({d: arguments for d, arguments in missing.items() if d in needed})


def settle_kept(types_by_name: Mapping[str, Any], root: Callable[..., Any]) -> None:
    """Compile those that are kept by themselves of the inner functions that `root` calls: what settle_types waits for elsewhere."""
    for dispatcher, arguments in _settled(types_by_name, called_by(root)).items():
        if dispatcher in _KEPT and not _in_index(dispatcher, arguments):
            settle_types(types_by_name, dispatcher.py_func)
            with no_collecting(), linked_late():
                _compile({dispatcher: arguments})


def _settled(types_by_name: Mapping[str, Any], wanted: Container[Any]) -> dict[Any, tuple[Any, ...]]:
    """The types of the annotations of those functions, callees before callers."""
    found = {}
    for dispatcher in _ONCE:
        function = dispatcher.py_func
        names = [function.__annotations__[a] for a in function.__code__.co_varnames[: function.__code__.co_argcount]]
        if dispatcher in wanted and all(name in types_by_name for name in names):
            found[dispatcher] = tuple(types_by_name[name] for name in names)
    return found


def _compile(signatures: Mapping[Any, tuple[Any, ...]]) -> None:
    for dispatcher, arguments in signatures.items():
        if arguments not in dispatcher.overloads:
            dispatcher.compile(arguments)
            dispatcher.disable_compile()


def called_by(root: Callable[..., Any], closed: Container[Any] = ()) -> set[Any]:
    """The compiled functions that a function may call, directly or not; but not what the `closed` ones call."""
    found: set[Any] = set()
    to_see = [root]
    while to_see:
        function = to_see.pop()
        for name in function.__code__.co_names:
            value: Any = function.__globals__.get(name)
            if hasattr(value, "py_func") and value not in found:
                found.add(value)
                if value not in closed:
                    to_see.append(value.py_func)
    return found


def _in_index(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a function that is kept has been compiled for these types, here or elsewhere."""
    return arguments in dispatcher.overloads or any(key[0] == arguments for key in _index(dispatcher))


def _index(dispatcher: Any) -> Mapping[Any, str]:
    """What the cache has of a function. A name among the files there would not be enough: another copy of the project keeps its own, and
    that of a file that was different then does not count."""
    load = getattr(getattr(dispatcher._cache, "_cache_file", None), "_load_index", None)
    return load() if load else {}


def compiled(function: F) -> F:
    """Compile on first call, for the types of that call; callable from Python and from compiled code."""
    result: F = numba.njit(**_OPTIONS, cache=True)(function)
    return result


def from_python(function: F) -> F:
    """An inner or hot function once more, for callers in Python."""
    return compiled(getattr(function, "py_func", function))


def inner(function: F) -> F:
    """Compile for calls from compiled code only. Without the wrappers that take arguments from Python, functions over the
    state's wide tuples compile in a fraction of the time."""
    return _once(numba.njit(**_INNER)(function))


def hot(function: F) -> F:
    """As inner, and always compiled into its caller: for what is small, or called from one place that runs often."""
    return _once(numba.njit(**_INNER, forceinline=True)(function))


def kept(function: F) -> F:
    """As inner, and in the cache by itself as well: a second process can compile it while the first compiles the rest (beside.py)."""
    dispatcher: Any = inner(function)
    if not DISABLED:
        dispatcher.enable_caching()
        _KEPT.add(dispatcher)
    result: F = dispatcher
    return result


def called(function: F) -> F:
    """A hot function once more, for callers that run seldom: called instead of copied in, which compiles faster."""
    return inner(getattr(function, "py_func", function))


def compiled_as(signature: Any, *, cached: bool = True, for_python: bool = True) -> Callable[[F], F]:
    """Compile for one signature, so that the function can be handed to compiled code as a value; where it is called from
    Python as well, that takes a wrapper.

    A user's own file is not cached: what it imports could change without numba seeing it.
    """

    def decorate(function: F) -> F:
        if DISABLED:
            return function
        with no_collecting(), linked_late():
            result: F = numba.njit(signature, **_OPTIONS, cache=cached, no_cpython_wrapper=not for_python)(function)
        return result

    return decorate


def called_as(signature: Any, function: F) -> F:
    """Compile for one signature, for calls from Python that take its types on trust."""
    result: Any = compiled_as(signature)(function)
    entry: F = result if DISABLED else result.overloads[signature.args].entry_point
    return entry


def namesake(function: F, name: str) -> F:
    """The same function under another name, so that what it is compiled to is kept apart."""
    copy: Any = FunctionType(function.__code__, function.__globals__, name)
    copy.__qualname__, copy.__annotations__, copy.__module__ = name, function.__annotations__, function.__module__
    result: F = copy
    return result


def in_cache(function: Callable[..., Any]) -> bool:
    """Whether a function that is compiled for one signature need not be compiled again."""
    return DISABLED or bool(_index(numba.njit(cache=True)(function)))


@contextmanager
def one_compiles(function: Callable[..., Any]) -> Iterator[bool]:
    """Whether it has to be compiled here. Processes that want the same wait for the first of them and then find it kept: side by side
    each of them would take longer."""
    if in_cache(function):
        yield False
        return
    with _locked(CACHE_DIR / f"{function.__module__}.{function.__qualname__}.lock"):
        yield not in_cache(function)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """As long as whoever has it lives. Where nothing can be written or locked, nobody waits."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def type_of(value: Any) -> Any:
    return numba.typeof(value)


def named_floats(row: type) -> Any:
    """The type of a NamedTuple of floats."""
    return types.NamedUniTuple(types.float64, len(row._fields), row)  # type: ignore[attr-defined]


def named_tuple(row: type, *members: Any) -> Any:
    return types.NamedTuple(members, row)


def function_type(signature: Any) -> Any:
    return types.FunctionType(signature)


f8, i8, truth = types.float64, types.int64, types.boolean
#: widens what is read from an int32 column, so that functions are not compiled once per width
int64: Any = np.int64


if DISABLED:

    def lowest_bit(word: int) -> int:
        """Position of the lowest set bit of a positive word."""
        w = int(word)
        return (w & -w).bit_length() - 1

else:
    from numba.cpython.unsafe.numbers import trailing_zeros as _trailing_zeros

    trailing_zeros: Any = _trailing_zeros

    @hot
    def lowest_bit(word: int) -> int:
        """Position of the lowest set bit of a positive word."""
        return int(trailing_zeros(word))
