"""Trigonometry, hyperbolic functions and distances on the globe (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

import math

from sowctl.expressions.functions.numbers import guarded
from sowctl.expressions.functions.signature import function
from sowctl.values.compare import NAN

EARTH_RADIUS = 6_371_008.8
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
    half = math.sin((north2 - north1) / 2) ** 2
    half += math.cos(north1) * math.cos(north2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(min(max(half, 0.0), 1.0)))


TRIGONOMETRY = (
    function("SIN", guarded(math.sin), "double", "number", "sine"),
    function("COS", guarded(math.cos), "double", "number", "cosine"),
    function("TAN", guarded(math.tan), "double", "number", "tangent"),
    function("COT", cot, "double", "number", "cotangent"),
    function("ASIN", guarded(math.asin), "double", "number", "arc sine"),
    function("ACOS", guarded(math.acos), "double", "number", "arc cosine"),
    function("ATAN", guarded(math.atan), "double", "number", "arc tangent"),
    function("SINH", sinh, "double", "number", "hyperbolic sine"),
    function("COSH", guarded(math.cosh), "double", "number", "hyperbolic cosine"),
    function("TANH", guarded(math.tanh), "double", "number", "hyperbolic tangent"),
    function("ATAN2", guarded(math.atan2), "double double", "number", "angle of the point (x, y)"),
    function("RADIANS", guarded(math.radians), "double", "number", "degrees to radians"),
    function("DEGREES", guarded(math.degrees), "double", "number", "radians to degrees"),
    function("GEO_DISTANCE", geo_distance, "double double double double", "number", "metres between two points"),
)
