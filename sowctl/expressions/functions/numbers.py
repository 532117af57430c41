"""Numeric functions, trigonometry and distances on the globe (``sowctl-expressions(7)``, functions).

Arguments are Integers or Doubles, NaN included.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sowctl.expressions.functions.signature import declare_function
from sowctl.values.scalars import I64_MIN, NAN, U64_MAX

_MAX_ROUNDING_PLACES = 1 << 64


def truncate_number(number: int | float) -> int:
    """A number other than NaN without its fraction; infinities become a very large Integer."""
    # int() refuses infinities. As positions and counts they need only exceed every length.
    if isinstance(number, float) and math.isinf(number):
        return _MAX_ROUNDING_PLACES if number > 0 else -_MAX_ROUNDING_PLACES
    return int(number)


def guard_math_errors(call: Callable[..., float]) -> Callable[..., float]:
    """Wrap ``call`` of :mod:`math`: a domain error gives NaN, overflow gives infinity."""

    def run(*values: float) -> float:
        try:
            return call(*values)
        except ValueError:
            return NAN
        except OverflowError:
            return math.inf

    return run


def sign(number: int | float) -> int | float:
    """-1, 0 or 1."""
    # NaN stays NaN; for numbers the difference of the two tests is the sign.
    return number if number != number else (number > 0) - (number < 0)


def _make_rounding(call: Callable[[float], int]) -> Callable[[int | float], int | float]:
    def run(number: int | float) -> int | float:
        # NaN and infinities cannot be rounded; they are returned unchanged.
        if isinstance(number, int) or not math.isfinite(number):
            return number
        # Beyond the range of Integers a Double is integral already.
        whole = call(number)
        return whole if I64_MIN <= whole <= U64_MAX else number

    return run


def round_to(number: int | float, places: int | float = 0) -> int | float:
    """Rounded half away from zero, keeping the kind; a negative number of places rounds digits before the point."""
    if number != number or places != places:
        return NAN
    count = truncate_number(places)
    if isinstance(number, int):
        # An Integer has no digits after the point; before it, rounding is exact.
        return number if count >= 0 else _round_integer(number, -count)
    if not math.isfinite(number):
        return number
    # Doubles range from about 1e-324 to 1e308: no digit is that far from the point.
    if abs(count) > 400:
        return number if count > 0 else math.copysign(0.0, number)
    scale = float(f"1e{abs(count)}")
    # The scaling rounds; the result is defined by these steps, so that it is the same on every machine.
    scaled = number * scale if count >= 0 else number / scale
    if math.isinf(scaled) or math.isinf(scale):
        return number if count >= 0 else math.copysign(0.0, number)
    whole = math.floor(abs(scaled))
    # Half away from zero: Python's round() rounds to the even neighbour instead.
    rounded = math.copysign(float(whole + (abs(scaled) - whole >= 0.5)), number)
    return rounded / scale if count >= 0 else rounded * scale


def _round_integer(number: int, places: int) -> int | float:
    # Integers have 20 digits at most: rounded to such a large unit, all are 0.
    if places > 30:
        return 0
    unit = 10**places
    rounded = (abs(number) + unit // 2) // unit * unit
    rounded = rounded if number >= 0 else -rounded
    return rounded if I64_MIN <= rounded <= U64_MAX else float(rounded)


def power(base: float, exponent: float) -> float:
    """IEEE pow: 0 to a negative power is infinite, a negative base to a fraction NaN; but NaN always gives NaN."""
    # math.pow() returns 1 for pow(1, NaN) and pow(NaN, 0); the language has NaN for any NaN argument.
    if base != base or exponent != exponent:
        return NAN
    try:
        return math.pow(base, exponent)
    except OverflowError:
        # An odd power of a negative number is negative, also if it overflows.
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        if base == 0 and exponent < 0:
            return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf
        return NAN


def _make_logarithm(call: Callable[[float], float]) -> Callable[[float], float]:
    def run(number: float) -> float:
        if number == 0:
            return -math.inf
        return NAN if number < 0 else call(number)

    return run


def _non_null_numbers(values: tuple[int | float | None, ...]) -> list[int | float]:
    return [value for value in values if value is not None and value == value]


def greatest(*values: int | float | None) -> int | float:
    """The largest number; NULL and NaN are skipped."""
    return max(_non_null_numbers(values), default=NAN)


def least(*values: int | float | None) -> int | float:
    """The smallest number; NULL and NaN are skipped."""
    return min(_non_null_numbers(values), default=NAN)


def width_bucket(number: int | float, low: int | float, high: int | float, count: int | float) -> int | float:
    """The number of the bucket of equal width: 0 below ``low``, count + 1 from ``high`` on."""
    if any(value != value for value in (number, low, high, count)) or low >= high or count < 1:
        return NAN
    buckets = truncate_number(count)
    if number < low:
        return 0
    if number >= high:
        return buckets + 1 if buckets < U64_MAX else float(buckets)
    start, width = float(low), float(high) - float(low)
    # Two different Integers may convert to the same Double; a width of 0 allows no buckets.
    if not width:
        return NAN
    # The formula of the language in its order of steps: Doubles are rounded at each step.
    position = (float(number) - start) * buckets / width
    return math.floor(position) + 1 if math.isfinite(position) else NAN


NUMBER_FUNCTIONS = (
    declare_function("ABS", abs, "number", "number", "absolute value; an Integer stays an Integer"),
    declare_function("SIGN", sign, "number", "number", "-1, 0 or 1"),
    declare_function(
        "CEILING", _make_rounding(math.ceil), "number", "number", "the smallest Integer that is not below n"
    ),
    declare_function(
        "FLOOR", _make_rounding(math.floor), "number", "number", "the largest Integer that is not above n"
    ),
    declare_function(
        "ROUND",
        round_to,
        "number number?",
        "number",
        "number rounded to places, half away from zero; an Integer stays an Integer",
    ),
    declare_function("SQRT", guard_math_errors(math.sqrt), "double", "number", "square root"),
    declare_function("EXP", guard_math_errors(math.exp), "double", "number", "exponential function"),
    declare_function("LN", _make_logarithm(math.log), "double", "number", "natural logarithm"),
    declare_function("LOG2", _make_logarithm(math.log2), "double", "number", "logarithm to base 2"),
    declare_function("LOG10", _make_logarithm(math.log10), "double", "number", "logarithm to base 10"),
    declare_function("POWER", power, "double double", "number", "power with base b and exponent e"),
    declare_function("GREATEST", greatest, "number ...", "number", "the largest number", strict=False),
    declare_function("LEAST", least, "number ...", "number", "the smallest number", strict=False),
    declare_function(
        "WIDTH_BUCKET",
        width_bucket,
        "number number number number",
        "number",
        "number of the bucket of n: 0 below min, count + 1 from max on",
    ),
)


EARTH_RADIUS_METRES = 6_371_008.8
"""Mean radius in metres."""


def cot(angle: float) -> float:
    """Cotangent; infinite at 0."""
    try:
        return 1.0 / math.tan(angle)
    except ValueError:
        return NAN
    except ZeroDivisionError:
        return math.copysign(math.inf, angle)


def sinh(value: float) -> float:
    """Hyperbolic sine; overflow keeps the sign."""
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def geo_distance(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """Metres between two points given in degrees, by the haversine formula on a sphere."""
    if not all(map(math.isfinite, (lat1, lon1, lat2, lon2))):
        return NAN
    north1, north2 = math.radians(lat1), math.radians(lat2)
    # Rounding may exceed the domain of root and arc sine by one unit in the last place: it is clamped below.
    half = math.sin((north2 - north1) / 2) ** 2
    half += math.cos(north1) * math.cos(north2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_METRES * math.asin(math.sqrt(min(max(half, 0.0), 1.0)))


TRIGONOMETRY_FUNCTIONS = (
    declare_function("SIN", guard_math_errors(math.sin), "double", "number", "sine"),
    declare_function("COS", guard_math_errors(math.cos), "double", "number", "cosine"),
    declare_function("TAN", guard_math_errors(math.tan), "double", "number", "tangent"),
    declare_function("COT", cot, "double", "number", "cotangent"),
    declare_function("ASIN", guard_math_errors(math.asin), "double", "number", "arc sine"),
    declare_function("ACOS", guard_math_errors(math.acos), "double", "number", "arc cosine"),
    declare_function("ATAN", guard_math_errors(math.atan), "double", "number", "arc tangent"),
    declare_function("SINH", sinh, "double", "number", "hyperbolic sine"),
    declare_function("COSH", guard_math_errors(math.cosh), "double", "number", "hyperbolic cosine"),
    declare_function("TANH", guard_math_errors(math.tanh), "double", "number", "hyperbolic tangent"),
    declare_function("ATAN2", guard_math_errors(math.atan2), "double double", "number", "angle of the point (x, y)"),
    declare_function("RADIANS", guard_math_errors(math.radians), "double", "number", "degrees to radians"),
    declare_function("DEGREES", guard_math_errors(math.degrees), "double", "number", "radians to degrees"),
    declare_function(
        "GEO_DISTANCE", geo_distance, "double double double double", "number", "metres between two points"
    ),
)
