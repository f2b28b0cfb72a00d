"""How inner functions are compiled: to LLVM's code, with few of numba's steps, and linked once into the outermost function.

They are called from compiled code only and run as part of what calls them. Left to itself, numba links each of them into each of
its callers, makes it better there and makes machine code of it, again and again up to the outermost one; and it looks for much
that no inner function has. A first run takes nearly twice as long with that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import codegen as _codegen
from numba.core import compiler as _compiler
from numba.core import compiler_machinery as _machinery
from numba.core import typed_passes as _typed
from numba.core import untyped_passes as _untyped

# numba types its own interface only in part
codegen: Any = _codegen
compiler: Any = _compiler
machinery: Any = _machinery
typed: Any = _typed
untyped: Any = _untyped


class FewSteps(compiler.CompilerBase):  # type: ignore[misc]
    """numba's steps without those that look for closures, comprehensions, array expressions, literals that matter and references to
    count."""

    def define_pipelines(self) -> list[Any]:
        steps = machinery.PassManager("inner")
        for step in (
            untyped.TranslateByteCode,
            untyped.FixupArgs,
            untyped.IRProcessing,
            untyped.ReconstructSSA,
            typed.NopythonTypeInference,
            typed.PreLowerStripPhis,
            typed.AnnotateTypes,
            typed.NativeLowering,
            typed.NoPythonBackend,
        ):
            steps.add_pass(step, step._name)
        steps.finalize()
        return [steps]


@contextmanager
def linked_late() -> Iterator[None]:
    """Compile what is compiled meanwhile so. Where numba's inside has changed, everything is done its way after all."""
    library, engine = codegen.JITCodeLibrary, codegen.JITCPUCodegen
    names = ("finalize", "_finalize_final_module", "_finalize_dynamic_globals", "_optimize_final_module")
    if not all(hasattr(library, name) for name in names) or not hasattr(engine, "set_env"):
        yield
        return
    finalize, finalize_module = library.finalize, library._finalize_final_module
    optimize, set_env = library._optimize_final_module, engine.set_env

    def finalize_late(self: Any) -> None:
        if _is_inner(self):
            _leave(self)
            return
        for callee in _to_link(self):
            if hasattr(self, "_reload_init"):  # newer ones
                self._reload_init.update(callee._reload_init)
            self._final_module.link_in(_own_module(callee), preserve=True)
        self._linking_libraries = []
        finalize(self)

    def finalize_module_late(self: Any) -> None:
        # of what comes from the cache, an inner function has no machine code
        if getattr(self, "_compiled_object", None) is None and _is_inner(self):
            _leave(self)
        else:
            finalize_module(self)

    def optimize_whole(self: Any) -> None:
        for one in self._final_module.functions:
            # nobody else calls its copies of others: then those that are called once become part of their callers, which
            # makes a run that preempts faster by a fifteenth
            if not one.is_declaration and one.linkage.name == "linkonce_odr":
                one.linkage = "internal"
        optimize(self)

    def set_env_if_there(self: Any, name: str, env: Any) -> None:
        if self._engine.get_global_value_address(name) != 0:
            set_env(self, name, env)

    library.finalize, library._finalize_final_module = finalize_late, finalize_module_late
    library._optimize_final_module, engine.set_env = optimize_whole, set_env_if_there
    try:
        yield
    finally:
        library.finalize, library._finalize_final_module = finalize, finalize_module
        library._optimize_final_module, engine.set_env = optimize, set_env


def _is_inner(library: Any) -> bool:
    """Nobody else can call what has no wrapper."""
    return not any(one.name.startswith(("_ZN7cpython", "cfunc.")) for one in library._final_module.functions)


def _leave(library: Any) -> None:
    """Leave an inner function as it is, to be linked into its callers."""
    library._finalize_dynamic_globals()
    for one in library._final_module.functions:
        if not one.is_declaration and one.linkage.name == "external":
            one.linkage = "linkonce_odr"  # its callers may each have a copy
    # for those who link it numba's way, and for the cache
    library._get_module_for_linking = lambda: _with_callees(library)
    library.serialize_using_object_code = lambda: (library.name, "bitcode", _with_callees(library).as_bitcode())
    library._is_late = library._finalized = True


def _own_module(library: Any) -> Any:
    return library._final_module if hasattr(library, "_is_late") else library._get_module_for_linking()


def _to_link(library: Any) -> list[Any]:
    """The libraries of what a library's functions call, directly or not: callers before callees, since LLVM drops what nobody calls
    yet."""
    seen: set[Any] = set()
    after: list[Any] = []

    def see(one: Any) -> None:
        for callee in one._linking_libraries:
            if callee not in seen:
                seen.add(callee)
                if hasattr(callee, "_is_late"):
                    see(callee)
                after.append(callee)

    see(library)
    return after[::-1]


def _with_callees(library: Any) -> Any:
    if library._shared_module is None:
        module = library._final_module.clone()
        for callee in _to_link(library):
            module.link_in(_own_module(callee), preserve=True)
        library._shared_module = module
    return library._shared_module
