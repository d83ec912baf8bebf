"""Our data classes behave as those of the standard library do."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Generic, TypeVar

import pytest

from kafkalog_cli import values

T = TypeVar("T")
SETTINGS = [{"frozen": f, "slots": s, "eq": e} for f in (False, True) for s in (False, True) for e in (False, True)]


def classes_of(module, **settings):
    """A class with defaults, a class below it, a generic class with an own __eq__, and a class without fields."""

    @module.dataclass(**settings)
    class Above:
        one: int
        many: list = module.field(default_factory=list)
        two: str = "two"

        def doubled(self):
            return self.one * 2

    @module.dataclass(**settings)
    class Below(Above):
        two: str = "changed"
        three: float = module.field(default=3.0)
        four: object = module.field(kw_only=True, default=None)

    @module.dataclass(**settings)
    class Own(Generic[T]):
        value: T

        def __eq__(self, other):
            return True

        def __repr__(self):
            return "own"

    @module.dataclass(**settings)
    class Empty:
        pass

    class Plain(Above):
        def __init__(self):
            super().__init__(7, two="plain")  # type: ignore[call-arg]
            object.__setattr__(self, "more", 1)

    return Above, Below, Own, Empty, Plain


CALLS = [
    (0, (1,), {}), (0, (1, [2]), {"two": "x"}), (0, (), {}), (0, (1, 2, 3, 4), {}), (0, (), {"one": 1, "other": 2}),
    (1, (1,), {}), (1, (1, [2], "x", 4.0), {"four": 5}), (1, (1, [2], "x", 4.0, 5), {}), (2, (1,), {}), (3, (), {}), (4, (), {}),
]  # fmt: skip


def outcome(act):
    try:
        return act()
    except Exception as error:
        return type(error), str(error).replace("test_values.", "")


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_classes_behave_as_those_of_the_standard_library(settings):
    ours, theirs = classes_of(values, **settings), classes_of(dataclasses, **settings)
    for which, args, words in CALLS:

        def asked(module, classes, which=which, args=args, words=words):
            def made():
                return classes[which](*args, **words)

            yield outcome(
                lambda: repr(made()).partition("(")[1:] if which < 4 and settings["eq"] else repr(type(made()))
            )
            yield outcome(lambda: made() == made())
            yield outcome(lambda: made() == classes[0](1))
            yield outcome(lambda: hash(made()) == hash(made()))
            yield outcome(lambda: [getattr(made(), name) for name in type(made()).__match_args__])
            for change in (
                lambda: setattr(made(), "one", 2),
                lambda: delattr(made(), "one"),
                lambda: setattr(made(), "unknown", 2),
            ):
                # Frozen classes with slots of the standard library refuse by a TypeError of their own.
                yield which < 4 and outcome(change) is None
            yield outcome(lambda: [(one.name, one.type, one.kw_only) for one in dataclasses.fields(made())])
            yield outcome(lambda: dataclasses.asdict(made()))
            yield outcome(lambda: module.replace(made(), one=9).one)
            yield outcome(lambda: dataclasses.replace(made(), one=9).one)
            yield outcome(lambda: copy.copy(made()) == made())
            yield outcome(lambda: hasattr(made(), "__dict__"))

        assert list(asked(values, ours)) == list(asked(dataclasses, theirs))


@values.dataclass(frozen=True, slots=True)
class Shipped:
    """Spark ships values between processes."""

    one: int
    two: tuple = ()


def test_an_instance_is_pickled():
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Shipped(1, (2,)), protocol)) == Shipped(1, (2,))


def test_nothing_of_dataclasses_is_imported():
    code = "import sys; from kafkalog_cli import values as v\n@v.dataclass(frozen=True, slots=True)\nclass A:\n a: int = 1\n"
    code += "print(A(2), v.replace(A(), a=3), A() == A(1), 'dataclasses' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "A(a=2) A(a=3) True False\n"
