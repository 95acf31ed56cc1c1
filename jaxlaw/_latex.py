"""Tables for papers: LaTeX with the package booktabs, whatever characters the names have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from jaxlaw.errors import UsageError

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
_DIGITS = 9  # of a number with a standard error, at most
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


def unit(text: str) -> str:
    r"""A unit with its powers raised: ``nats·N^α`` as nats·N with exponent α."""
    parts = re.split(r"\^(?:\(([^)]*)\)|([^\W_]+))", text)  # what is between, in brackets, and bare
    raised = [f"$^{{{_in_maths(a or b)}}}$" for a, b in zip(parts[1::3], parts[2::3], strict=True)]
    return "".join(
        escape_latex(plain) + power for plain, power in zip(parts[::3], [*raised, ""], strict=True)
    )


def _in_maths(text: str) -> str:
    return "".join(_COMMANDS.get(letter, letter) for letter in text)


def number(value: float, digits: int = 6) -> str:
    """A number in maths, with powers of ten written out."""
    text = f"{value:.{digits}g}"
    return _maths(text) if any(letter.isdigit() for letter in text) else escape_latex(text)


def number_with_error(value: float, error: float) -> str:
    r"""A number and, in parentheses, its standard error, both to the error's second digit.

    Args:
        value: number.
        error: its standard error. Where that is none, or too small to show (of runs without
            noise), the number has six digits.

    Example:
        >>> from jaxlaw._latex import number_with_error
        >>> print(number_with_error(0.33073, 0.00604), number_with_error(61.61e12, 9.5e12))
        $0.3307\ (0.0060)$ $6.16\ (0.95) \times 10^{13}$
    """
    if not math.isfinite(error):
        return number(value)
    size, last = _power(value), _power(float(f"{error:.1e}")) - 1
    if error == 0 or size - last > _DIGITS:
        return f"{number(value)} ({number(error, 2)})"
    # Written out where the power of ten is small, and the last digit lies not before the point.
    power = 0 if -4 < size < _DIGITS and last <= 0 else max(size, last + 1)
    both = (f"{part / 10.0**power:.{power - last}f}" for part in (value, error))
    shown = r"{}\ ({})".format(*both)
    return rf"${shown} \times 10^{{{power}}}$" if power else f"${shown}$"


def _power(value: float) -> int:
    """The power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value))) if value else 0


def even_digits(column: Iterable[str]) -> list[str]:
    """Cells of a table, with the zeros back that hide that numbers have digits alike.

    Example:
        >>> from jaxlaw._latex import even_digits
        >>> even_digits(["0.451 %", "0.5 %", "12.1 %", "none"])
        ['0.451 %', '0.500 %', '12.1 %', 'none']
    """
    cells = list(column)
    parts = [re.fullmatch(r"(-?)(\d+)\.?(\d*)( %)?", cell) for cell in cells]
    sizes = [len((part[2] + part[3]).lstrip("0")) if part else 0 for part in parts]
    wanted = max(sizes, default=0)
    for k, part in enumerate(parts):
        if part and 0 < sizes[k] < wanted and "." in "".join(cells):
            digits = part[3] + "0" * (wanted - sizes[k])
            cells[k] = f"{part[1]}{part[2]}.{digits}{part[4] or ''}"
    return cells


def bold(cell: str) -> str:
    """A cell of LaTeX with its numbers in bold."""
    return re.sub(r"\$([^$]*)\$", r"$\\mathbf{\1}$", cell)


def numbers_in_maths(text: str) -> str:
    """Text in LaTeX, its numbers in maths: ``1e25`` is 1 × 10²⁵ and ``391 B`` stays with its B."""
    parts = re.split(rf"(?<![\w.])({_NUMBER})(?![\w.])", str(text))
    return "".join(_maths(part) if k % 2 else escape_latex(part) for k, part in enumerate(parts))


def _maths(text: str) -> str:
    size, _, power = text.replace(",", "{,}").partition("e")
    return rf"${size} \times 10^{{{int(power)}}}$" if power else f"${size}$"


def latex_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], columns: str, caption: str,
    label: str = "",
) -> str:  # fmt: skip
    r"""A ``table`` of LaTeX with rules by booktabs (``\usepackage{booktabs}``).

    Args:
        head: names of the columns, in LaTeX.
        rows: cells, in LaTeX.
        columns: alignment of the columns, such as ``lrl``.
        caption: text below the table, in LaTeX.
        label: name of the table for ``\ref``; empty for none.

    Raises:
        UsageError: a label that LaTeX does not read.
    """
    if set(label) & set("\\{}%#"):
        raise UsageError(
            f"label is a name such as tab:fit, without \\, {{, }}, % and #, not {label!r}",
            argument="label", value=label,
        )  # fmt: skip
    named = [rf"\label{{{label}}}"] if label else []
    lines = [
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule",
        " & ".join(head) + r" \\", r"\midrule",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\bottomrule", r"\end{tabular}", rf"\caption{{{caption}}}", *named,
        r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
