"""Colours that everybody can tell apart: the colour-blind, and who prints in grey."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from jaxlaw._axes import BLUE, FAINT, GREEN, INK, RED, shades

#: Machado, Oliveira and Fernandes 2009, table 1, severity 1: of linear RGB.
SEEN = {
    "normal": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
    "grey": np.full((3, 1), 1) * [0.2126, 0.7152, 0.0722],
}  # fmt: skip
XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
])  # fmt: skip


def linear(color):
    value = np.array(to_rgb(color))
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(color, how):
    """CIE L*a*b* of a colour as it is seen."""
    seen = np.clip(SEEN[how] @ linear(color), 0, 1)
    t = XYZ @ seen / (XYZ @ np.ones(3))
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colors, how):
    seen = [lab(color, how) for color in colors]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


def contrast_on_white(color):
    return 1.05 / (np.dot((0.2126, 0.7152, 0.0722), linear(color)) + 0.05)


def test_the_simulation_knows_what_is_hard_to_tell_apart():
    """Red and green of one lightness are one colour to a deuteranope, and in grey."""
    pair = ("#a05a00", "#6a7500")
    assert least_distance(pair, "normal") > 25
    assert least_distance(pair, "deuteranopia") < 10 and least_distance(pair, "grey") < 10
    assert least_distance(("black", "white"), "grey") == pytest.approx(100)


@pytest.mark.parametrize("how", [how for how in SEEN if how != "grey"])
def test_colours_differ_to_every_eye(how):
    assert least_distance((INK, BLUE, RED, GREEN), how) > 25
    assert min(least_distance((FAINT, one), how) for one in (INK, BLUE, RED)) > 25
    assert least_distance(shades(5), how) > 9


def test_colours_differ_in_grey():
    assert least_distance((INK, BLUE, RED, GREEN), "grey") > 9.5
    assert min(least_distance((FAINT, one), "grey") for one in (INK, BLUE)) > 9.5
    assert least_distance(shades(5), "grey") > 9
    lightness = [lab(color, "normal")[0] for color in shades(5)]
    assert lightness == sorted(lightness, reverse=True)  # the first is the brightest


@pytest.mark.parametrize("color", [INK, FAINT, BLUE, RED, GREEN, *map(tuple, shades(5))])
def test_every_colour_can_be_seen_on_white(color):
    assert contrast_on_white(color) > (4.5 if color in (INK, FAINT, BLUE, RED) else 3)
