"""Layers as a short text: "half(64, k=16), dense(32)" and the architecture that it stands for.

layers = "" | layer {"," layer}
layer  = name ["(" [option {"," option}] ")"]
option = value | name "=" value | flag
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import NamedTuple, TypeAlias

from halfnet import _fields
from halfnet.exceptions import HalfnetError, HalfnetValueError
from halfnet.lab.specs import (
    Architecture,
    ConvSpec,
    DenseSpec,
    Front,
    HalfConvSpec,
    HalfSpec,
    Layer,
    LowRankSpec,
)

_KINDS: dict[str, type[Front | Layer]] = {
    "dense": DenseSpec,
    "lowrank": LowRankSpec,
    "half": HalfSpec,
    "conv": ConvSpec,
    "halfconv": HalfConvSpec,
}
_IN_ORDER = {ConvSpec: ("filters", "kernel"), HalfConvSpec: ("filters", "kernel")}
_FLAGS = ("binary", "affine")
_WORDS = {"yes": True, "true": True, "no": False, "false": False}
_TOKEN = re.compile(r"\s*(?:(?P<word>[\w.+-]+)|(?P<mark>[(),=]))\s*")

Value: TypeAlias = bool | int | str


class _Token(NamedTuple):
    text: str
    position: int


def parse(text: str) -> Architecture:
    """Return the architecture that a text stands for; an empty one has no hidden layers.

    Layers: dense(units), lowrank(units, k=rank), half(units, k=rank), and first of all
    conv(filters, kernel) or halfconv(filters, kernel, k=rank). Options are the fields of the specs:
    noise=, affine=no, binary, draw=, init=, padding=.

    Raises:
        HalfnetError: It cannot be read; the message says at which character.
    """
    layers = _Parser(text).layers()
    fronts = [spec for _, spec in layers if isinstance(spec, Front)]
    for position, spec in layers[1:]:
        if isinstance(spec, Front):
            with _at(text, position):
                raise HalfnetValueError("expected a convolution only as the first layer")
    hidden = tuple(spec for _, spec in layers if isinstance(spec, Layer))
    return Architecture(fronts[0] if fronts else None, hidden)


@contextmanager
def _at(text: str, position: int) -> Iterator[None]:
    """Say of an error inside at which character of the text it is, and what is written there."""
    try:
        yield
    except HalfnetError as error:
        where = f"{text[position : position + 20]!r}" if position < len(text) else "its end"
        raise type(error)(f"layers, character {position + 1} ({where}): {error}") from None


class _Parser:
    """Reads a text from left to right, a method a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[_Token]:
        tokens, position = [], 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                with _at(self._text, position):
                    raise HalfnetValueError("expected a name, a number or one of ( ) , =")
            tokens.append(_Token(match[0].strip(), match.start(match.lastgroup or 0)))
            position = match.end()
        return [*tokens, _Token("", len(self._text))]

    def _take(self, *marks: str) -> _Token:
        """Return the next token, which must be one of these marks, or without any a word."""
        token = self._tokens[self._next]
        if token.text not in marks if marks else token.text in ("", *"(),="):
            expected = " or ".join(map(repr, marks)) if marks else "a name or a number"
            with _at(self._text, token.position):
                raise HalfnetValueError(f"expected {expected}")
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _follows(self, mark: str) -> bool:
        return self._tokens[self._next].text == mark

    def layers(self) -> list[tuple[int, Front | Layer]]:
        """Return the layers, each with its position in the text."""
        if self._follows(""):
            return []
        found = [self._layer()]
        while not self._follows(""):
            self._take(",")
            found.append(self._layer())
        return found

    def _layer(self) -> tuple[int, Front | Layer]:
        name = self._take()
        with _at(self._text, name.position):
            cls = _fields.named("layer", name.text, _KINDS)
        options: dict[str, Value] = {}
        self._take("(")
        if not self._follows(")"):
            self._option(cls, options)
        while self._take(",", ")").text == ",":
            self._option(cls, options)
        with _at(self._text, name.position):
            return name.position, _fields.read(cls, options)

    def _option(self, cls: type[Front | Layer], options: dict[str, Value]) -> None:
        token = self._take()
        value: Value | None = None
        if self._follows("="):
            self._take("=")
            value = _value(self._take().text)
        with _at(self._text, token.position):
            if value is not None:
                key = _fields.named("option", token.text, _names(cls))
            elif token.text in _FLAGS:
                key, value = _fields.named("option", token.text, _names(cls)), True
            else:
                key, value = _unnamed(cls, options), _value(token.text)
                if token.text[0].isalpha():
                    _fields.unknown("option", token.text, _names(cls))
            if key in options:
                raise HalfnetValueError(f"{key}: expected once, got it twice")
        options[key] = value


def _names(cls: type[Front | Layer]) -> dict[str, str]:
    """Return the fields by the names that they have in a text; rank is k there too."""
    names = {item.name: item.name for item in fields(cls) if item.init}
    return {"k": "rank", **names} if "rank" in names else names


def _unnamed(cls: type[Front | Layer], options: Collection[str]) -> str:
    """Return which field a number without a name is: the first one of its kind not given yet."""
    order = _IN_ORDER.get(cls, ("units",))
    return next((key for key in order if key not in options), order[-1])


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() else _WORDS.get(text, text)
