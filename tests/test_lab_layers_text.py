"""Layers as a short text: what it stands for, and what is said of one that stands for nothing."""

import pytest

from halfnet.exceptions import HalfnetError, HalfnetTypeError, HalfnetValueError
from halfnet.lab._layers_text import parse
from halfnet.lab.specs import (
    Architecture,
    ConvSpec,
    DenseSpec,
    HalfConvSpec,
    HalfSpec,
    LowRankSpec,
)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("", ()),
        ("  ", ()),
        ("dense(32)", (DenseSpec(units=32),)),
        (" half ( 64 , k = 16 ) ", (HalfSpec(units=64, rank=16),)),
        ("half(rank=0, units=5)", (HalfSpec(units=5, rank=0),)),
        ("half(k=3, 5)", (HalfSpec(units=5, rank=3),)),
        (
            "half(8, k=2),dense(4),lowrank(6, k=1)",
            (HalfSpec(units=8, rank=2), DenseSpec(units=4), LowRankSpec(units=6, rank=1)),
        ),
        (
            "half(8, k=2, noise=fixed, affine=no, binary, draw=orthogonal, init=paper)",
            (
                HalfSpec(
                    units=8,
                    rank=2,
                    noise="fixed",
                    affine=False,
                    binary=True,
                    draw="orthogonal",
                    init="paper",
                ),
            ),
        ),
        (
            "half(8, k=2, affine=yes, binary=false)",
            (HalfSpec(units=8, rank=2, affine=True, binary=False),),
        ),
    ],
)
def test_a_text_stands_for_its_layers(text, layers):
    assert parse(text) == Architecture(None, layers)


@pytest.mark.parametrize(
    ("text", "front", "hidden"),
    [
        ("conv(8, 5)", ConvSpec(filters=8, kernel=5), ()),
        ("conv(8, 5, padding=2)", ConvSpec(filters=8, kernel=5, padding=2), ()),
        ("conv(kernel=5, 8)", ConvSpec(filters=8, kernel=5), ()),
        (
            "halfconv(8, 3, k=2, binary), dense(4)",
            HalfConvSpec(filters=8, kernel=3, rank=2, binary=True),
            (DenseSpec(units=4),),
        ),
    ],
)
def test_a_convolution_comes_first(text, front, hidden):
    assert parse(text) == Architecture(front, hidden)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("hlf(64, k=2)", "1 ('hlf(64, k=2)')", "unknown layer 'hlf': the nearest name is 'half'"),
        ("dense(8), conv(8, 3)", "11 ('conv(8, 3)')", "a convolution only as the first layer"),
        ("conv(8, 3), conv(8, 3)", "13 ('conv(8, 3)')", "a convolution only as the first layer"),
        ("half", "5 (its end)", "expected '('"),
        ("half(64", "8 (its end)", "expected ',' or ')'"),
        ("half(64,", "9 (its end)", "expected a name or a number"),
        ("half(64,)", "9 (')')", "expected a name or a number"),
        ("half(,64)", "6 (',64)')", "expected a name or a number"),
        ("half(64 k=2)", "9 ('k=2)')", "expected ',' or ')'"),
        ("half(64, k=)", "12 (')')", "expected a name or a number"),
        ("dense(8) dense(8)", "10 ('dense(8)')", "expected ','"),
        ("dense(8),", "10 (its end)", "expected a name or a number"),
        ("dense(8); dense(8)", "9 ('; dense(8)')", "expected a name, a number or one of ( ) , ="),
        ("half(64)", "1 ('half(64)')", "rank: expected a value, got none"),
        ("dense()", "1 ('dense()')", "units: expected a value, got none"),
        ("half(64, 16)", "10 ('16)')", "units: expected once, got it twice"),
        ("half(64, k=2, rank=2)", "15 ('rank=2)')", "rank: expected once, got it twice"),
        ("dense(8, k=2)", "10 ('k=2)')", "unknown option 'k': the nearest name is 'units'"),
        ("dense(8, binary)", "10 ('binary)')", "unknown option 'binary'"),
        ("half(64, k=2, binry)", "15 ('binry)')", "the nearest name is 'binary'"),
        ("half(64, k=2, nois=none)", "15 ('nois=none)')", "the nearest name is 'noise'"),
        ("half(64, k=2, noise=nne)", "1 (", "unknown noise 'nne': the nearest name is 'none'"),
        ("half(64, k=2, draw=normel)", "1 (", "unknown draw 'normel'"),
        ("dense(0)", "1 ('dense(0)')", "units: expected an integer from 1"),
        ("conv(8, 3, padding=x)", "1 (", "padding: expected an integer from 0"),
        ("half(64, k=-1)", "1 (", "rank: expected an integer from 0"),
        ("dense(2.5)", "1 (", "units: expected an integer from 1 to 1000000, got '2.5'"),
        ("half(8, k=2, affine=3)", "1 (", "affine: expected true or false, got 3"),
    ],
)
def test_an_error_says_where_and_what(text, place, words):
    with pytest.raises(HalfnetError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"layers, character {place}")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_keep_their_types():
    with pytest.raises(HalfnetTypeError):
        parse("dense(2.5)")
    with pytest.raises(HalfnetValueError):
        parse("dense(0)")
