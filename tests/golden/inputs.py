"""Seeded random pod templates and PodCliqueSets, as the lines of JSON text that an oracle is asked.

Text and not values, because the spelling of a number or of a string may change what Go makes of it. Most lines are what
a user might write; the rest go where ports go wrong: absent against empty, null in odd places, unknown fields,
quantities of every kind, and values that Go refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Final, TypeVar

from testbed.oracle import MINORS
from tests.support.layout_walk import custom, fields, types, underlying

T = TypeVar("T")
Members = dict[str, str]  # of a JSON object: values as text, by keys that are not quoted yet


@dataclass(frozen=True, slots=True)
class Mood:
    """Probabilities; each is asked at every place where it can apply."""

    null: float = 0.0  # null where a value could stand
    empty: float = 0.0  # [] {} "" instead of something
    odd: float = 0.0  # strange spellings and characters
    unknown: float = 0.0  # a field that no struct has
    wrong: float = 0.0  # a value that Go refuses


MOODS: Final = (
    Mood(),
    Mood(empty=0.1),
    Mood(null=0.05, empty=0.2, odd=0.1, unknown=0.05),
    Mood(null=0.15, empty=0.3, odd=0.5, unknown=0.1),
    Mood(null=0.02, empty=0.1, odd=0.1, wrong=0.03),
)
#: Fields that decide about order, or without which a template would be dull.
COMMON: Final = dict.fromkeys(("containers", "containerPort", "mountPath", "devicePath", "ip", "topologyKey"), 0.9) | {
    **dict.fromkeys(("protocol", "limits", "requests"), 0.5),
    **dict.fromkeys(("resources", "env", "volumes"), 0.4),
    "name": 0.8,
    "whenUnsatisfiable": 0.7,
}
#: Short and few, so that keys collide and orders matter, and some of them sort unlike they look.
WORDS: Final = ("a", "b", "B", "main", "10", "9", "worker-10", "worker-9", "/a", "/a/b", "/a-b", "a.b", "é", "Z", "25%")
NUMBERS: Final = ("80", "8080", "9", "10", "0", "-1")
#: JSON text for the inside of a string, chosen to look like the dump or like the escapes in it.
PIECES: Final = (
    *("é", "日本", "😀", "\u00a0", "\u2028", "\u007f", "\ufeff", "\uffff", "\U0010ffff", " ", "  "),
    *(r"\t", r"\n", r"\r\n", r"\u0000", r"\u001f", r"\"", r"\\", r"\/", r"\u003c", r"\b", r"\f", r"\u00E9", r"\u0025"),
    *(r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\ude00\ud83d", r"\ud83d\u0041", r"\ufffd", r"\\u0041", r"\\n"),
    *("/", "<", ">", "&", "}", "{", "]", "[", "<nil>", " Name:(string)x", "(string)", "map[a:b]", "%v", "$(VAR)"),
    *("'", "`", "null", "0", "-1", "x", "Y"),
)
#: Each is what Go refuses for most types, and for others only looks as if.
WRONG: Final = (
    *("1", "1.0", "1.5", "1e3", "true", "{}", "[]", "[{}]", "2147483648", "-9223372036854775809"),
    *('"x"', '""', '"5"', '"true"', '"1 Gi"', '"--1"', '"1Zi"', '"1e"'),
)
LIMITS: Final = {
    "int32": ("2147483647", "-2147483648", "-0"),
    "int64": ("9223372036854775807", "-9223372036854775808", "-0", "4294967296"),
}
QUANTITIES: Final = ("1", "2", "16", "0", "100m", "1500m", "1k", "512Mi", "1Gi", "64Gi", "1Ti")
SUFFIXES: Final = (
    *("", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"),
    *("e3", "E3", "e-3", "e0", "E+2", "e-12"),
)
BROKEN_SUFFIXES: Final = (
    *("K", "ki", "i", "e", "mi", "g", "kk", "1", " ", "Zi", "+1"),
    *("e1.5", "EE", "e9999999999999999999", "E-"),
)
SPACES: Final = (" ", "  ", "\u00a0", "\u3000", "\u0085", "\u2003")
STARTUPS: Final = (
    *('"CliqueStartupTypeAnyOrder"', '"CliqueStartupTypeInOrder"', '"CliqueStartupTypeInOrder"'),
    *('"CliqueStartupTypeExplicit"', "null", '""', '"inorder"'),
)


def random_lines(seed: int, count: int, *, sets: bool = False) -> list[bytes]:
    """Lines for an oracle: templates, or PodCliqueSets. Any can be made again without those before it."""
    lines = []
    for number in range(count):
        writer = _Writer(Random(f"{seed} {number}"))  # noqa: S311 - no secret
        name, kind = ("random/pcs", "pcs") if sets else ("random", "input")
        value = writer.pod_clique_set(number) if sets else writer.template()
        lines.append(f'{{"id":"{name}/{seed}/{number}","{kind}":{value}}}'.encode())
    return lines


@cache
def _basic(go_type: str) -> str:
    """What a type is in the newest minor that has it: ``[]T``, ``map[K]V``, a basic type, or the name of a struct."""
    return next((underlying(minor, go_type) for minor in reversed(MINORS) if go_type in types(minor)), go_type)


@cache
def _fields(struct: str) -> dict[str, str]:
    """The types of a struct's fields in all minors, by their names in JSON."""
    return {name: inner for minor in MINORS for name, inner in fields(minor, struct)}


@cache
def _chances(struct: str) -> dict[str, float]:
    """How probable each field of a struct is."""
    share = 3 / len(_fields(struct)) + 1 / 8
    return {name: 1 - (1 - share) * (1 - COMMON.get(name, 0.0)) for name in _fields(struct)}


@cache
def _names_in_go(struct: str) -> tuple[str, ...]:
    return tuple({field[0]: None for minor in MINORS for field in types(minor).get(struct, ())})


_CUSTOM: Final = frozenset[str]().union(*map(custom, MINORS))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Writer:
    """Writes one line. Of the generator it asks for numbers only: the rest may differ between versions of Python."""

    def __init__(self, generator: Random) -> None:
        self.number = generator.random
        self.mood = MOODS[0]
        self.budget = 0  # how many more values may be written before everything closes

    def below(self, limit: int) -> int:
        return int(self.number() * limit)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        return sorted(items, key=lambda _: self.number())

    def happens(self, chance: float) -> bool:
        return self.number() < chance

    # What is asked for.

    def template(self) -> str:
        self.mood, self.budget = self.pick(MOODS), self.pick((15, 40, 40, 80, 80, 150, 300))
        members = self.metadata()
        if self.happens(0.95):
            members["podSpec"] = self.pod_spec()
        return self.object(members | self.priority(0.3))

    def pod_clique_set(self, number: int) -> str:
        template = self.priority(0.4)
        if self.happens(0.8):
            template["cliqueStartupType"] = self.pick(STARTUPS)
        if self.happens(0.97):
            cliques = self.shuffled(WORDS)[: self.below(5)]
            template["cliques"] = f"[{','.join(map(self.clique, cliques))}]"
        spec = {"replicas": str(self.below(4)), "template": self.object(template)}
        about = {"apiVersion": '"grove.io/v1alpha1"', "kind": '"PodCliqueSet"'}
        metadata = f'{{"name":"set-{number}","namespace":"default"}}'
        return self.object({**about, "metadata": metadata, "spec": self.object(spec)})

    def clique(self, name: str) -> str:
        mood = self.pick(MOODS)
        self.mood, self.budget = replace(mood, wrong=mood.wrong / 4), 10 + self.below(60)  # one refuses the whole set
        spec = {"roleName": _quoted(name), "replicas": str(1 + self.below(8)), "podSpec": self.pod_spec()}
        members = {"name": _quoted(name)} | self.metadata()
        return self.object(members | ({"spec": self.object(spec)} if self.happens(0.95) else {}))

    def metadata(self) -> Members:
        return {name: self.value("map[string]string") for name in ("labels", "annotations") if self.happens(0.5)}

    def priority(self, chance: float) -> Members:
        return {"priorityClassName": self.value("string")} if self.happens(chance) else {}

    def pod_spec(self) -> str:
        """Hardly ever null, empty, or no object."""
        return self.value("v1.PodSpec") if self.happens(0.02) else self.object(self.members("v1.PodSpec"))

    # Values, by the Go type that they are for.

    def value(self, go_type: str) -> str:
        self.budget -= 2 if go_type.startswith("*") else 1
        bare = go_type.removeprefix("*")
        basic = _basic(bare)
        if self.happens(self.mood.wrong):
            return self.pick(WRONG)
        if self.happens(self.mood.null):
            return "null"
        if bare in _CUSTOM:
            return self.custom(bare)
        if basic == "bool":
            return self.pick(("true", "false"))
        if basic == "string":
            return self.text()
        return self.integer(basic) if basic in LIMITS else self.compound(basic)

    def custom(self, go_type: str) -> str:
        match go_type:
            case "resource.Quantity":
                return self.quantity()
            case "intstr.IntOrString":
                return self.integer("int32") if self.happens(0.6) else self.text()
            case "v1.Time":
                return f'"2024-02-29T23:59:59{self.pick(("Z", "+02:00", ".123456789Z"))}"'
            case "v1.FieldsV1":  # printed as bytes, so without white space and escapes that are lost on the way
                return self.pick(("{}", '{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}', '{"f:b":{},"f:a":{}}'))
        raise ValueError(f"{go_type}: no rule to write a value")

    def compound(self, basic: str) -> str:
        ends = self.budget < 0 or self.happens(self.mood.empty)
        if basic.startswith("[]"):
            return f"[{','.join(self.value(basic[2:]) for _ in range(0 if ends else 1 + self.below(4)))}]"
        if ends:
            return "{}"
        return self.dictionary(basic.partition("]")[2]) if basic.startswith("map[") else self.structure(basic)

    def dictionary(self, element: str) -> str:
        found: dict[str, str] = {}
        for _ in range(1 + self.below(4)):
            key = self.text()
            # As Go decodes it: two keys that are one string would make the result depend on a rule about duplicates.
            decoded = json.loads(key).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if decoded not in found:
                found[decoded] = f"{key}:{self.value(element)}"
        return f"{{{','.join(found.values())}}}"

    def structure(self, struct: str) -> str:
        members = self.members(struct)
        if self.happens(self.mood.unknown):
            spellings = ("futureField", "", self.pick(_names_in_go(struct)), self.pick([*_fields(struct)]).upper())
            name = self.pick(spellings)
            value = self.pick(("1.5e400", '{"a":[1,{}]}', '"x"', "[[]]", "null", "-0"))
            members["xFuture" if name in _fields(struct) else name] = value
        return self.object(members)

    def members(self, struct: str) -> Members:
        chosen = [name for name, chance in _chances(struct).items() if self.number() < chance]
        return {name: self.value(_fields(struct)[name]) for name in chosen}

    def object(self, members: Members) -> str:
        """In random order, for the order of keys must never matter."""
        return f"{{{','.join(f'{self.key(key)}:{members[key]}' for key in self.shuffled(members))}}}"

    def key(self, name: str) -> str:
        """Quoted, and now and then with a letter as an escape."""
        if len(name) > 1 and self.happens(self.mood.odd * 0.02):
            return f'"\\u{ord(name[0]):04x}{name[1:]}"'
        return _quoted(name)

    def text(self) -> str:
        if self.happens(self.mood.empty * 0.3):
            return '""'
        if self.happens(self.mood.odd * 0.5):
            return f'"{"".join(self.pick(PIECES) for _ in range(1 + self.below(5)))}"'
        return _quoted(self.pick(WORDS))

    def integer(self, basic: str) -> str:
        if self.happens(self.mood.odd * 0.2):
            return self.pick(LIMITS[basic])
        return self.pick(NUMBERS) if self.happens(0.6) else str(self.below(2000))

    def quantity(self) -> str:
        """A number or a string, without escapes: Go parses the raw token, and no API server writes one.

        Nor has it an exponent that is both large and legal: for one like 1e-99999999 Go computes for hours.
        """
        if not self.happens(0.2 + self.mood.odd):
            return _quoted(self.pick(QUANTITIES))
        if self.happens(0.2):
            whole = self.pick(("0", "1", "2", "8", "10", "1000", "123456789", "1234567890123456789012"))
            fraction = self.pick(("", "", "", ".0", ".5", ".25", ".000", ".0000000000001"))
            exponent = self.pick(("", "", "", "e3", "E3", "e+2", "e-3", "E-10", "e0", "e00"))
            return self.pick(("", "", "-")) + whole + fraction + exponent
        suffixes = BROKEN_SUFFIXES if self.happens(self.mood.wrong * 5) else SUFFIXES
        text = self.pick(("", "", "", "+", "-")) + self.decimal() + self.pick(suffixes)
        return f'"{self.pick(SPACES)}{text}{self.pick(SPACES)}"' if self.happens(0.03) else f'"{text}"'

    def decimal(self) -> str:
        """An integer or a fraction, with zeros where they may or may not count."""
        whole = self.pick(("", "0", "00", "1", "8", "10", "1000", "1024", "1000000"))
        if self.happens(0.5):
            whole = self.pick(("", "0")) + self.digits((3, 6, 12, 22))
        rest = (self.digits((3, 10, 20)), self.pick(("0", "5", "50", "000", "25", "125", "001", "0000000001")), "")
        return f"{whole}.{self.pick(rest)}" if self.happens(0.5) else whole

    def digits(self, most: Sequence[int]) -> str:
        return "".join(str(self.below(10)) for _ in range(1 + self.below(self.pick(most))))
