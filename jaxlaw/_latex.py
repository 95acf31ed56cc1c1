"""Tables for papers: LaTeX with the package booktabs, whatever characters the names have."""

from __future__ import annotations

import re

_SPECIAL = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "·": r"$\cdot$", "−": "$-$", "×": r"$\times$", "±": r"$\pm$", "≤": r"$\le$", "≥": r"$\ge$",
    "²": "$^2$", "⁹": "$^9$", "→": r"$\to$", "Σ": r"$\Sigma$", "∂": r"$\partial$", "–": "--",
}  # fmt: skip
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε", "zeta": "ζ",
    "eta": "η", "kappa": "κ", "lambda": "λ", "mu": "μ", "sigma": "σ", "tau": "τ", "phi": "φ",
}  # fmt: skip
_COMMANDS = {letter: rf"\{name}" for name, letter in _GREEK.items() if name != "eps"}
_ESCAPED = _SPECIAL | {letter: f"${command}$" for letter, command in _COMMANDS.items()}


def escape_latex(text: object) -> str:
    """Text as LaTeX shows it: signs and Greek letters in maths, powers raised: ``nats·N^α``."""
    parts = re.split(r"\^(\([^)]*\)|[^\W_]+)", str(text))
    for k, part in enumerate(parts):
        if k % 2:
            power = "".join(_COMMANDS.get(letter, letter) for letter in part.strip("()"))
            parts[k] = f"$^{{{power}}}$"
        else:
            parts[k] = "".join(_ESCAPED.get(letter, letter) for letter in part)
    return "".join(parts)


def symbol(name: str) -> str:
    """The name of a parameter as a symbol: ``alpha_N`` as α with index N, ``C1`` as C with 1."""
    parts = re.fullmatch(r"([A-Za-z]+)(\d*)(?:_([A-Za-z0-9]+))?", name)
    if parts is None:
        return escape_latex(name)
    base, digits, index = parts.groups()
    base = _COMMANDS[_GREEK[base]] if base in _GREEK else base
    base = base if len(base) == 1 or base.startswith("\\") else rf"\mathrm{{{base}}}"
    below = [digits] if digits else []
    if index:
        below.append(index if len(index) == 1 else rf"\mathrm{{{index}}}")
    return f"${base}_{{{','.join(below)}}}$" if below else f"${base}$"


def cell_in_latex(text: str) -> str:
    """Text in LaTeX, its numbers in maths: ``1e25`` is 1 × 10²⁵ and ``391 B`` stays with its B."""
    parts = re.split(r"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?![\w.])", text)
    for k, part in enumerate(parts):
        size, _, power = part.replace(",", "{,}").partition("e")
        times = rf" \times 10^{{{int(power)}}}" if k % 2 and power else ""
        parts[k] = f"${size}{times}$" if k % 2 else escape_latex(part)
    return "".join(parts)
