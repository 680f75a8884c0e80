"""Frozen numbers: the one place where z and eps come from.

Each number is a pure function of (seed, stream, unit, coordinate). Nothing else enters: not the
layer's size, not the order or the chunks in which numbers are made, not the device, the dtype, the
thread count or a library's version. Two choices give that:

* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns the
  counter (coordinate // 2, unit, stream, 0) and the seed as key into 128 bits: two numbers of 64
  bits, for the even coordinate and for the odd one after it. It is integer arithmetic only.
* The normal quantile function (Wichura, Algorithm AS 241, 1988) turns 64 bits into a normal number.
  It is evaluated in float64 with + - x / and sqrt alone, which IEEE 754 rounds exactly, one NumPy
  call an operation so that no compiler can fuse two of them. Its logarithm is a series of our own,
  because a maths library's may differ in the last bit.

The result is rounded once to float32: the canonical draw, over which `checksum` is taken.

This module needs NumPy alone and imports nothing of halfnet, so that the same file can be run under
another NumPy, and `tests/draws.mjs` can be held against it line by line.
"""

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 1
"""Goes up when any bit of any draw changes. Files say which version made their draws."""

Z, EPS, SAMPLE_Z, SAMPLE_EPS = 0, 1, 2, 3
"""The streams: a layer's z and eps, and the same for `Geometry.sample`."""

Floats: TypeAlias = npt.NDArray[np.float64]
Words: TypeAlias = npt.NDArray[np.uint64]
Draw: TypeAlias = npt.NDArray[np.float32]

# Numbers made at a time, so that the temporaries stay in a core's cache. One thread with chunks of
# this size is as fast as two with any: they would wait for the interpreter's lock.
_CHUNK = 1 << 14

_LOW32 = np.uint64(0xFFFFFFFF)
_SHIFT32 = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox(counter: tuple[Words, Words, Words, Words], seed: int) -> tuple[Words, ...]:
    """Return Philox4x32-10 of four 32-bit counter words; the seed's two halves are the key.

    The counter's arrays are overwritten: fresh ones each round would cost half the time again.
    """
    x0, x1, x2, x3 = counter
    product0, product1 = np.empty_like(x0), np.empty_like(x0)
    key0, key1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        np.multiply(x0, _MULTIPLIERS[0], out=product0)
        np.multiply(x2, _MULTIPLIERS[1], out=product1)
        np.right_shift(product1, _SHIFT32, out=x0)
        x0 ^= x1
        x0 ^= np.uint64(key0)
        np.bitwise_and(product1, _LOW32, out=x1)
        np.right_shift(product0, _SHIFT32, out=x2)
        x2 ^= x3
        x2 ^= np.uint64(key1)
        np.bitwise_and(product0, _LOW32, out=x3)
        key0 = (key0 + _KEY_STEPS[0]) & 0xFFFFFFFF
        key1 = (key1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return x0, x1, x2, x3


# Coefficients of AS 241, highest power first, as Wichura gives them: numerator, denominator.
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476


def _horner(coefficients: tuple[float, ...], x: Floats) -> Floats:
    total = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    return _horner(coefficients[0], x) / _horner(coefficients[1], x)


def _log(x: Floats) -> Floats:
    """Natural logarithm of normal positive numbers, to about 1e-16, the same bits everywhere."""
    mantissa, exponent = np.frexp(x)  # exact: only bits are moved
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    exponent = np.where(low, exponent - 1, exponent).astype(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    # log m = 2 (s + s^3/3 + s^5/5 + ...), and |s| < 0.172: eleven terms reach the last bit
    series = _horner(tuple(1.0 / n for n in range(21, 0, -2)), s * s)
    return exponent * _LN2 + 2.0 * s * series


def normal_quantile_below_half(p: Floats) -> Floats:
    """Return -Phi^-1(p) for 0 < p < 1/2: how far out in a tail of probability p one stands."""
    q = 0.5 - p
    x = q * _ratio(_CENTRE, 0.180625 - q * q)
    outer = np.nonzero(q > 0.425)[0]
    if outer.size:
        r = np.sqrt(-_log(p[outer]))
        tail = _ratio(_MIDDLE, r - 1.6)
        far = np.nonzero(r > 5.0)[0]
        if far.size:
            tail[far] = _ratio(_TAIL, r[far] - 5.0)
        x[outer] = tail
    return x


def _to_normal(low: Words, high: Words) -> Draw:
    """Turn 64 random bits into a normal number: 52 bits for how far out, one for the side."""
    bits = (high << np.uint64(20)) | (low >> np.uint64(12))
    p = (bits.astype(np.float64) + 0.5) * 2.0**-53  # all steps exact; 2^-54 <= p < 1/2
    x = normal_quantile_below_half(p).astype(np.float32)
    return np.negative(x, out=x, where=(low & np.uint64(1)).astype(bool))


def _normal_rows(seed: int, stream: int, first: int, out: Draw) -> None:
    """Fill `out` with the rows of units first, first + 1, ..."""
    rows, columns = out.shape
    pairs = (columns + 1) // 2
    unit = np.repeat(np.arange(first, first + rows, dtype=np.uint64), pairs)
    pair = np.tile(np.arange(pairs, dtype=np.uint64), rows)
    words = philox((pair, unit, np.full_like(pair, stream), np.zeros_like(pair)), seed)
    out[:, 0::2] = _to_normal(words[0], words[1]).reshape(rows, pairs)
    out[:, 1::2] = _to_normal(words[2], words[3]).reshape(rows, pairs)[:, : columns // 2]


def normal(seed: int, stream: int, units: int, coordinates: int) -> Draw:
    """Return the (units, coordinates) draw of a stream, float32, every number independent."""
    out = np.empty((units, coordinates), dtype=np.float32)
    height = max(1, _CHUNK // max(1, coordinates))
    for top in range(0, units, height):
        _normal_rows(seed, stream, top, out[top : top + height])
    return out


def orthogonal(seed: int, stream: int, units: int, coordinates: int) -> Draw:
    """Return a draw whose columns are orthogonal with norm sqrt(units).

    Where units < coordinates it is the rows, with norm sqrt(coordinates). The normal draw is
    orthogonalised by modified Gram-Schmidt in float64, so the directions are uniform (Haar), and
    the time grows with units x coordinates x min(units, coordinates).
    """
    draw = normal(seed, stream, units, coordinates).astype(np.float64)
    vectors = np.ascontiguousarray(draw if units < coordinates else draw.T)
    for j in range(len(vectors)):
        unit = vectors[j] / np.sqrt(_fixed_order_sum(vectors[j] * vectors[j]))
        rest = vectors[j + 1 :]
        rest -= _fixed_order_sum(rest * unit)[:, None] * unit
        vectors[j] = unit
    vectors *= np.sqrt(np.float64(max(units, coordinates)))
    scaled = vectors if units < coordinates else vectors.T
    return np.ascontiguousarray(scaled, dtype=np.float32)


def _fixed_order_sum(x: Floats) -> Floats:
    """Sum over the last axis by halving. `np.sum` and BLAS add in an order that they choose."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        odd = x[..., 2 * half :]
        x = x[..., :half] + x[..., half : 2 * half]
        x[..., : odd.shape[-1]] += odd
    return x[..., 0]


KINDS = {"normal": normal, "orthogonal": orthogonal}
"""How z can be drawn. A file stores a kind as its place in this list."""


def checksum(*draws: Draw | None) -> int:
    """Return 64 bits (as a signed number) of the SHA-256 of canonical draws, little-endian."""
    digest = hashlib.sha256()
    for draw in draws:
        if draw is not None:
            digest.update(np.ascontiguousarray(draw, dtype="<f4").data)
    return int.from_bytes(digest.digest()[:8], "little", signed=True)


def derived_seed(seed: int, name: str) -> int:
    """Return the seed that a layer gets from a whole model's seed and its qualified name."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")
