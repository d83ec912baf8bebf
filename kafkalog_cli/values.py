"""Data classes that a start does not wait for: methods are shared, and `__init__` is compiled for the first instance.

`dataclasses` imports `inspect` and compiles six methods per class: for the hundred classes of `verify` that was half of
its start. This decorator takes the same arguments and makes classes that behave alike; `fields`, `asdict` and `replace`
of `dataclasses` know them. `tests/test_values.py` compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

__all__ = ["as_dict", "dataclass", "field", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any

_MISSING: Any = object()


class _Field:
    """A field's default: `value`, or what `factory` returns."""

    __slots__ = ("factory", "kw_only", "value")

    def __init__(self, value: Any, factory: Any, kw_only: bool) -> None:
        self.value = value
        self.factory = factory
        self.kw_only = kw_only


def _field(*, default: Any = _MISSING, default_factory: Any = None, kw_only: bool = False) -> Any:
    return _Field(default, default_factory, kw_only)


def _dataclass(cls: Any = None, /, **settings: bool) -> Any:
    return (lambda cls: _made(cls, **settings)) if cls is None else _made(cls, **settings)


def _replace(instance: Any, /, **changes: Any) -> Any:
    return type(instance)(**as_dict(instance) | changes)


if not TYPE_CHECKING:
    dataclass, field, replace = _dataclass, _field, _replace


def as_dict(instance: Any) -> dict[str, Any]:
    """Return the values of an instance by the names of its fields; values inside them stay as they are."""
    return {name: getattr(instance, name) for name in instance.__fields__}


def _made(cls: Any, *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True) -> Any:  # noqa: A002
    inherited: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited |= vars(base).get("__fields__", {})
    found = {name: vars(cls).get(name, _MISSING) for name in vars(cls).get("__annotations__", ())}
    own = {name: one if isinstance(one, _Field) else _Field(one, None, False) for name, one in found.items()}
    every = inherited | own
    if slots:
        cls = _with_slots(cls, own)
    for name in own.keys() & vars(cls).keys() if not slots else ():
        if isinstance(found[name], _Field):
            delattr(cls, name)
    cls.__fields__ = every
    cls.__match_args__ = tuple(name for name, one in every.items() if not one.kw_only)  # type: ignore[misc]
    cls.__dataclass_fields__ = _StandardFields(cls)
    cls.__dataclass_params__ = _Settings(frozen)
    methods: dict[str, Any] = {"__init__": _init_when_called(cls, every, frozen=frozen)}
    methods |= {"__repr__": _repr} if repr else {}
    methods |= _comparisons(tuple(every), frozen=frozen) if eq else {}
    methods |= _frozen(cls, every) if frozen else {}
    methods |= {"__getstate__": _state, "__setstate__": _set_state} if frozen and slots else {}
    for name, method in methods.items():
        if vars(cls).get(name) is None:  # a class with an own __eq__ has None as __hash__
            setattr(cls, name, method)
    return cls


def _with_slots(cls: Any, own: Mapping[str, _Field]) -> Any:
    """Return the class with slots for its fields; slots cannot be added to a class that there is."""
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    namespace = {name: one for name, one in vars(cls).items() if name not in own}
    namespace["__slots__"] = tuple(name for name in own if name not in inherited)
    namespace.pop("__dict__", None)
    namespace.pop("__weakref__", None)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _init_when_called(cls: Any, every: Mapping[str, _Field], *, frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, /, *args: Any, **values: Any) -> None:  # noqa: N807
        cls.__init__ = _init(every, frozen=frozen)
        cls.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__(self, *args, **values)

    return __init__


def _init(every: Mapping[str, _Field], *, frozen: bool) -> Any:
    """Compile the method that sets all fields, as `dataclasses` would."""
    names: dict[str, Any] = {"_MISSING": _MISSING, "_set": object.__setattr__}
    positional, named, lines = ["self"], list[str](), list[str]()
    for name, one in every.items():
        has_default = one.factory is not None or one.value is not _MISSING
        names |= {f"_value_{name}": one.value, f"_make_{name}": one.factory}
        (named if one.kw_only else positional).append(f"{name}=_value_{name}" if has_default else name)
        value = name if one.factory is None else f"_make_{name}() if {name} is _MISSING else {name}"
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    words = [*positional, *(["*"] if named else []), *named]
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(lines or ["pass"]), names)
    return names["__init__"]


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__fields__)})"


def _comparisons(names: tuple[str, ...], *, frozen: bool) -> dict[str, Any]:
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash((values(self),))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _frozen(cls: Any, every: Mapping[str, _Field]) -> dict[str, Any]:
    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in every:
            _refuse(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in every:
            _refuse(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _refuse(message: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(message)


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__fields__, state, strict=True):
        object.__setattr__(self, name, value)


class _Settings:
    """What a class of `dataclasses` asks of a class above it."""

    __slots__ = ("frozen",)

    def __init__(self, frozen: bool) -> None:
        self.frozen = frozen


class _StandardFields:
    """The fields in the form of `dataclasses`, made when its functions ask for them."""

    __slots__ = ("_cls",)

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: object) -> Any:
        import dataclasses

        types = {name: kind for base in reversed(self._cls.__mro__) for name, kind in
                 vars(base).get("__annotations__", {}).items()}  # fmt: skip
        own = [(name, types[name], _standard(one)) for name, one in self._cls.__fields__.items()]
        self._cls.__dataclass_fields__ = dataclasses.make_dataclass(self._cls.__name__, own).__dataclass_fields__  # type: ignore[attr-defined]
        return self._cls.__dataclass_fields__


def _standard(one: _Field) -> Any:
    import dataclasses

    if one.factory is not None:
        return dataclasses.field(default_factory=one.factory, kw_only=one.kw_only)
    if one.value is not _MISSING:
        return dataclasses.field(default=one.value, kw_only=one.kw_only)
    return dataclasses.field(kw_only=one.kw_only)
