"""Tables for papers: LaTeX with the package booktabs, whatever characters the names have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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
_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_COMMANDS = {letter: rf"\{name}" for name, letter in _GREEK.items() if name != "eps"}


def escape_latex(text: object) -> str:
    """Text as LaTeX shows it: special characters escaped, Greek letters and signs in maths."""
    greek = {letter: f"${command}$" for letter, command in _COMMANDS.items()}
    return "".join((_SPECIAL | greek).get(letter, letter) for letter in str(text))


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


def number(value: float, digits: int = 6) -> str:
    """A number in maths, with powers of ten written out."""
    text = f"{value:.{digits}g}"
    return _maths(text) if any(letter.isdigit() for letter in text) else escape_latex(text)


def numbers_in_maths(text: str) -> str:
    """Text in LaTeX, its numbers in maths: ``1e25`` is 1 × 10²⁵ and ``391 B`` stays with its B."""
    parts = re.split(rf"(?<![\w.])({_NUMBER})(?![\w.])", str(text))
    return "".join(_maths(part) if k % 2 else escape_latex(part) for k, part in enumerate(parts))


def _maths(text: str) -> str:
    size, _, power = text.replace(",", "{,}").partition("e")
    return rf"${size} \times 10^{{{int(power)}}}$" if power else f"${size}$"


def latex_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], columns: str, caption: str
) -> str:
    r"""A ``table`` of LaTeX with rules by booktabs (``\usepackage{booktabs}``).

    Args:
        head: names of the columns, in LaTeX.
        rows: cells, in LaTeX.
        columns: alignment of the columns, such as ``lrl``.
        caption: text below the table, in LaTeX.
    """
    lines = [
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule",
        " & ".join(head) + r" \\", r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
