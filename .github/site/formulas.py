"""A law's formula, a line of text, as MathML: browsers typeset it without a script or a font.

The text is an expression of Python but for its signs (``·`` times, ``^`` to the power), so that
Python's own parser reads it. Clauses follow each other with commas, as in ``F/K^μ, K = 1/k1``; one
that is no expression (``S1_pt fitted``) stays text.
"""

import ast
import re
from html import escape

# The accent, the brackets and the sum have no sign in Python.
_SIGNS = str.maketrans({"·": "*", "−": "-", "^": "**", "[": "(", "]": ")", "'": "ʹ"})
_SUM = re.compile(r"Σ_(\w+) (.*)")
_NAME = re.compile(r"(?P<base>[a-z]{3,}|\w)(?P<index>[^ʹ]*)(?P<accent>ʹ?)")
_WORDS = re.compile(r"\w+( [\w-]+)+")
_SUMS, _PRODUCTS, _POWERS, _ATOMS = range(4)  # how tightly an operation binds
_TIMES = '<mo lspace="0" rspace="0.1em">&#x2062;</mo>'


def mathml(formula: str) -> str:
    """The formula as HTML: a ``<math>`` element for each clause, set as blocks.

    Raises:
        SyntaxError: a clause is neither an expression nor text after a symbol.
    """
    return "".join(
        f'<math display="block">{_clause(clause.strip())}</math>' for clause in _split(formula, ",")
    )


def _clause(text: str) -> str:
    try:
        return "<mo>=</mo>".join(_expression(side) for side in _split(text, "="))
    except SyntaxError:
        if not _WORDS.fullmatch(text):
            raise
        symbol, _, words = text.partition(" ")
        return f"{_name(symbol.translate(_SIGNS))}<mtext>&#xa0;{escape(words)}</mtext>"


def _expression(text: str) -> str:
    """A side of an equation; a sum over an index reaches over the rest of its term."""
    text = text.translate(_SIGNS)
    if sum_over := _SUM.search(text):
        text = f"{text[: sum_over.start()]}Σ({sum_over[1]}, {sum_over[2]})"
    return _of(ast.parse(text.strip(), mode="eval").body, False)[0]


def _of(node: ast.expr, small: bool) -> tuple[str, int]:
    """MathML of a node, and how tightly it binds; fractions of exponents stay on one line."""
    match node:
        case ast.Name(name):
            return _name(name), _ATOMS
        case ast.Constant(value):
            return f"<mn>{value}</mn>", _ATOMS
        case ast.UnaryOp(ast.USub(), operand):
            return f"<mo>−</mo>{_operand(operand, _PRODUCTS, small)}", _PRODUCTS
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            operator = "+" if isinstance(sign, ast.Add) else "−"
            right_side = _operand(right, _PRODUCTS, small)
            return f"{_operand(left, _SUMS, small)}<mo>{operator}</mo>{right_side}", _SUMS
        case ast.BinOp(left, ast.Mult(), right):
            factors = (_operand(side, _PRODUCTS, small) for side in (left, right))
            return _TIMES.join(factors), _PRODUCTS
        case ast.BinOp(left, ast.Div(), right) if small:
            below = _operand(right, _POWERS, small)
            return f"{_operand(left, _PRODUCTS, small)}<mo>/</mo>{below}", _PRODUCTS
        case ast.BinOp(left, ast.Div(), right):
            return f"<mfrac>{_row(left, small)}{_row(right, small)}</mfrac>", _PRODUCTS
        case ast.BinOp(ast.Name(name), ast.Pow(), exponent) if "<msub>" in _name(name):
            base = _name(name).removeprefix("<msub>").removesuffix("</msub>")
            return f"<msubsup>{base}{_row(exponent, True)}</msubsup>", _POWERS
        case ast.BinOp(base, ast.Pow(), exponent):
            return f"<msup>{_operand(base, _ATOMS, small)}{_row(exponent, True)}</msup>", _POWERS
        case ast.Call(ast.Name("Σ"), [index, term]):
            over = f"<munder><mo>∑</mo>{_row(index, True)}</munder>"
            return f"{over}{_operand(term, _PRODUCTS, small)}", _PRODUCTS
        case ast.Call(ast.Name(function), [argument]):
            inside = _brackets(_of(argument, small)[0])
            return f"<mi>{function}</mi><mo>&#x2061;</mo>{inside}", _POWERS
    raise SyntaxError(f"no formula: {ast.unparse(node)}")


def _operand(node: ast.expr, level: int, small: bool) -> str:
    """In brackets where it binds less tightly than the operation it is of."""
    text, own = _of(node, small)
    return text if own >= level else _brackets(text)


def _row(node: ast.expr, small: bool) -> str:
    """As one element, which fractions and exponents are made of."""
    text, own = _of(node, small)
    return text if own == _ATOMS else f"<mrow>{text}</mrow>"


def _brackets(text: str) -> str:
    return f"<mrow><mo>(</mo>{text}<mo>)</mo></mrow>"


def _name(name: str) -> str:
    """``S1_pt`` as S with the indices 1 and pt, ``D'`` with its accent, ``e`` upright."""
    if name == "e":
        return '<mi mathvariant="normal">e</mi>'
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise SyntaxError(f"no name: {name}")
    base, indices = f"<mi>{parts['base']}</mi>", re.findall(r"\d+|[^\W\d_]+", parts["index"])
    if parts["accent"]:
        base = f"<mrow>{base}<mo>′</mo></mrow>"
    if not indices:
        return base
    index = "<mo>,</mo>".join(f"<mn>{i}</mn>" if i.isdigit() else f"<mi>{i}</mi>" for i in indices)
    return f"<msub>{base}<mrow>{index}</mrow></msub>"


def _split(text: str, mark: str) -> list[str]:
    """Parts between marks that are outside of brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign == mark and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
