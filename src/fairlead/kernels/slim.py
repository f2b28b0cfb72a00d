"""The state as compiled code sees it: tuples by reference, of arrays that are no more than where the data begins and how long it
is.

numba's own arrays are seven to nine words each, and the state's tuples over two hundred; every call that is not compiled into
its caller copies them all, which took a sixth of the time of a run that preempts. Here an array is two or three words, and a
tuple is passed as one pointer. Arrays are always contiguous, an index below 0 is a mistake (numba's arrays count it from
the end, a comparison at every access), and all they can do is to read or write one element and to tell their `shape`. A tuple
can only be asked for its members.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numba as _numba
from numba import extending as _extending
from numba import types as _types
from numba.core import boxing as _boxing
from numba.core import cgutils as _cgutils
from numba.core import imputils as _imputils
from numba.core.typeconv.castgraph import Conversion as _Conversion
from numba.core.typing import templates as _templates
from numba.core.typing import typeof as _typeof

# numba types its own interface only in part
numba: Any = _numba
types: Any = _types

cgutils: Any = _cgutils
ir: Any = cgutils.ir
imputils: Any = _imputils
templates: Any = _templates
signature: Any = _templates.signature
boxing: Any = _boxing
extending: Any = _extending
typeof: Any = _typeof
Conversion: Any = _Conversion

INDEX: Any = types.intp


class Slim(types.Type):  # type: ignore[misc]
    """An array of `dims` dimensions, one or two. `width`: the length of its rows, where that is the same in every run. `known`: entries
    of an array of one dimension that are the same in every run that this is compiled for, so that nobody need read them."""

    def __init__(self, dtype: Any, dims: int, width: int = 0, known: Mapping[int, float] | None = None) -> None:
        self.dtype, self.dims, self.width, self.known = dtype, dims, width, dict(known or {})
        super().__init__(name=f"Slim({dtype},{dims},{width}{''.join(f',{x}={v}' for x, v in self.known.items())})")

    @property
    def index(self) -> Any:
        return INDEX if self.dims == 1 else types.UniTuple(INDEX, 2)

    def takes(self, index: Any) -> bool:
        if self.dims == 1:
            return isinstance(index, types.Integer)
        return isinstance(index, types.BaseTuple) and [isinstance(one, types.Integer) for one in index] == [True, True]


@extending.register_model(Slim)
class _SlimModel(extending.models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Slim) -> None:
        lengths = [(f"length{d}", INDEX) for d in range(kind.dims)]
        super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), *lengths])


def _struct(context: Any, builder: Any, kind: Slim, value: Any = None) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _element(context: Any, builder: Any, kind: Slim, array: Any, index: Any, inbounds: bool = True) -> Any:
    it = _struct(context, builder, kind, array)
    if kind.dims == 2:
        row, column = cgutils.unpack_tuple(builder, index, 2)
        width = context.get_constant(INDEX, kind.width) if kind.width else it.length1
        flags = ("nsw",) if inbounds else ()
        index = builder.add(builder.mul(row, width, flags=flags), column, flags=flags)
    return builder.gep(it.data, [index], inbounds=inbounds)


#: so numba tries this before what is for any target, of which there is much: a tenth of the time of a first run
_FIRST = {"target": "cpu"}


@templates.infer_global(operator.getitem)
class _Get(templates.AbstractTemplate):  # type: ignore[misc]
    metadata = _FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if isinstance(array, Slim) and array.takes(index):
            return signature(array.dtype, array, array.index)
        return None


@templates.infer_global(operator.setitem)
class _Set(templates.AbstractTemplate):  # type: ignore[misc]
    metadata = _FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        array, index, value = args
        if isinstance(array, Slim) and array.takes(index) and isinstance(value, types.Number | types.Boolean):
            return signature(types.none, array, array.index, array.dtype)
        return None


@templates.infer_getattr
class _Attributes(templates.AttributeTemplate):  # type: ignore[misc]
    key = Slim

    def resolve_shape(self, array: Slim) -> Any:
        return types.UniTuple(INDEX, array.dims)


def _marked(builder: Any, access: Any, name: str) -> Any:
    """Say what kind of memory is read or written: what is written to an array never changes where an array begins."""
    module = builder.module
    root = module.add_metadata([ir.MetaDataString(module, "fairlead")])
    kind = module.add_metadata([ir.MetaDataString(module, name), root, ir.IntType(64)(0)])
    access.set_metadata("tbaa", module.add_metadata([kind, kind, ir.IntType(64)(0)]))
    return access


@imputils.lower_builtin(operator.getitem, Slim, types.Any)  # type: ignore[untyped-decorator]
def _lower_get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, index = sig.args[0], args[1]
    if isinstance(index, ir.Constant) and index.constant in kind.known:
        return context.get_constant(kind.dtype, kind.known[index.constant])
    return _marked(builder, builder.load(_element(context, builder, sig.args[0], *args)), "data")


@imputils.lower_builtin(operator.setitem, Slim, types.Any, types.Any)  # type: ignore[untyped-decorator]
def _lower_set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    at = _element(context, builder, sig.args[0], *args[:2])
    _marked(builder, builder.store(args[2], at), "data")
    return context.get_dummy_value()


@imputils.lower_getattr(Slim, "shape")  # type: ignore[untyped-decorator]
def _lower_shape(context: Any, builder: Any, kind: Slim, value: Any) -> Any:
    it = _struct(context, builder, kind, value)
    return cgutils.pack_array(builder, [getattr(it, f"length{d}") for d in range(kind.dims)])


def _from_array(context: Any, builder: Any, kind: Slim, full: Any) -> Any:
    it = _struct(context, builder, kind)
    it.data = full.data
    for d, length in enumerate(cgutils.unpack_tuple(builder, full.shape, kind.dims)):
        setattr(it, f"length{d}", length)
    return it._getvalue()


@extending.unbox(Slim)  # type: ignore[untyped-decorator]
def _unbox_slim(kind: Slim, obj: Any, c: Any) -> Any:
    array = types.Array(kind.dtype, kind.dims, "C")
    native = boxing.unbox_array(array, obj, c)
    full = c.context.make_array(array)(c.context, c.builder, value=native.value)
    return extending.NativeValue(_from_array(c.context, c.builder, kind, full), is_error=native.is_error)


class Ref(types.Type):  # type: ignore[misc]
    """A tuple of state that is passed as a pointer."""

    def __init__(self, members: Any) -> None:
        self.members = members
        super().__init__(name=f"Ref({members})")

    def can_convert_to(self, typing: Any, other: Any) -> Any:
        """Who knows more of a tuple can call who knows less."""
        if isinstance(other, Ref) and knowing(self, {name: {} for name in self.members.fields}) == other:
            return Conversion.safe
        return None


@extending.register_model(Ref)
class _RefModel(extending.models.OpaqueModel):  # type: ignore[misc]
    pass


@imputils.lower_cast(Ref, Ref)  # type: ignore[untyped-decorator]
def _forget(context: Any, builder: Any, knowing: Ref, other: Ref, value: Any) -> Any:
    return value


def knowing(ref: Ref, known: Mapping[str, Mapping[int, float]]) -> Ref:
    """The same tuple, where these entries of these arrays are known."""
    fields = zip(ref.members.fields, ref.members)
    members = [
        Slim(m.dtype, m.dims, m.width, known[name]) if name in known and isinstance(m, Slim) else m
        for name, m in fields
    ]
    return Ref(types.NamedTuple(members, ref.members.instance_class))


def _point_at(context: Any, builder: Any, kind: Ref, value: Any) -> Any:
    return builder.bitcast(cgutils.alloca_once_value(builder, value), context.get_value_type(kind))


@templates.infer_getattr
class _Members(templates.AttributeTemplate):  # type: ignore[misc]
    key = Ref

    def generic_resolve(self, ref: Ref, name: str) -> Any:
        fields = ref.members.fields
        return ref.members.types[fields.index(name)] if name in fields else None


@imputils.lower_getattr_generic(Ref)  # type: ignore[untyped-decorator]
def _lower_member(context: Any, builder: Any, ref: Ref, value: Any, name: str) -> Any:
    whole = builder.bitcast(value, context.get_value_type(ref.members).as_pointer())
    number = ref.members.fields.index(name)
    return _read(builder, cgutils.gep_inbounds(builder, whole, 0, number))


def _read(builder: Any, at: Any) -> Any:
    """What a pointer points at, word for word, so that a word that nobody needs is not read."""
    kind = at.type.pointee
    if not isinstance(kind, ir.BaseStructType | ir.ArrayType):
        return _marked(builder, builder.load(at), "member")
    value = ir.Constant(kind, ir.Undefined)
    for x in range(len(kind)):
        value = builder.insert_value(value, _read(builder, cgutils.gep_inbounds(builder, at, 0, x)), x)
    return value


@extending.unbox(Ref)  # type: ignore[untyped-decorator]
def _unbox_ref(kind: Ref, obj: Any, c: Any) -> Any:
    native = c.unbox(kind.members, obj)
    return extending.NativeValue(_point_at(c.context, c.builder, kind, native.value), is_error=native.is_error)


def slim_type(array: Any, width: int = 0) -> Slim:
    """What an array becomes in compiled code."""
    if not array.flags.c_contiguous or (width and array.shape[1] != width):
        raise TypeError(f"compiled code takes contiguous arrays only, and rows of {width or 'any'} entries")
    return Slim(numba.from_dtype(array.dtype), array.ndim, width)


def pass_slim(kind: type, widths: Mapping[str, int]) -> None:
    """Let compiled code see this NamedTuple of arrays so, whoever passes one. `widths`: of fields whose rows are always as long."""

    def type_of(value: Any, _: Any) -> Any:
        members = [slim_type(array, widths.get(name, 0)) for name, array in zip(value._fields, value)]
        return Ref(types.NamedTuple(members, kind))

    typeof.typeof_impl.register(kind)(type_of)


if numba.config.DISABLE_JIT:

    def slim(array: Any) -> Any:
        """An array of numba's as one of these."""
        return array

    def by_ref(members: Any) -> Any:
        """A tuple, to be passed as a pointer as long as the caller runs."""
        return members

    def fetch(array: Any, index: Any) -> None:
        """An element will soon be read: have it brought near. It need not exist."""

else:

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def slim(typing: Any, array: Any) -> Any:
        """An array of numba's as one of these."""
        kind = Slim(array.dtype, array.ndim)

        def convert(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            full = context.make_array(array)(context, builder, value=args[0])
            return _from_array(context, builder, kind, full)

        return signature(kind, array), convert

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def by_ref(typing: Any, members: Any) -> Any:
        """A tuple, to be passed as a pointer as long as the caller runs."""
        kind = Ref(members)

        def point(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return _point_at(context, builder, kind, args[0])

        return signature(kind, members), point

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def fetch(typing: Any, array: Any, index: Any) -> Any:
        """An element will soon be read: have it brought near. It need not exist."""

        def prefetch(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            place = _element(context, builder, array, args[0], args[1], inbounds=False)
            place, i32 = builder.bitcast(place, ir.IntType(8).as_pointer()), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, i32, i32, i32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [place, i32(0), i32(3), i32(1)])
            return context.get_dummy_value()

        return signature(types.none, array, array.index), prefetch
