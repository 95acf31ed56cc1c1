"""The laws: formula, inputs, parameters and source of each, from their specifications."""

import importlib
import inspect

import formulas

from jaxlaw import laws

_MODULES = (
    "scaling", "best_settings", "mixture", "cross_domain", "repetition", "experts", "annealing",
    "downstream",
)  # fmt: skip


def page() -> str:
    """Every built-in law, by the module that holds it, as Markdown."""
    parts = [
        "# The laws as formulas",
        "All of them by name, as `jl.law_table()` lists them. The "
        "[chapter](../jaxlaw/laws/index.md) says which to choose.",
    ]
    built_in = [law for law in map(laws.get, laws.names()) if law.program_name]
    for name in _MODULES:
        module = importlib.import_module(f"jaxlaw.laws.{name}")
        own = [law for law in built_in if law.function.__module__ == module.__name__]
        built_in = [law for law in built_in if law not in own]
        parts.append(f"## {inspect.getdoc(module).splitlines()[0].rstrip('.')}")
        for law in own:
            parts += _law(law)
    assert not built_in, f"on no page: {built_in}"
    return "\n\n".join(parts) + "\n"


def _law(law: laws.Law) -> list[str]:
    document = inspect.getdoc(law.function) or ""
    rows = [f"| `{spec.name}` | {spec.doc}{_unit(spec.unit)} | |" for spec in law.inputs]
    rows += [f"| `{spec.name}` | {spec.doc} | {_range(spec)} |" for spec in law.parameters]
    return [
        f"### {law.name}",
        f'<div class="formula">{formulas.mathml(f"{law.target} = {law.formula}")}</div>',
        " ".join(document.split("\n\n")[0].split()),
        f"Source: {law.source}" if law.source else "",
        "\n".join(["| symbol | meaning | range of starts, unit |", "|---|---|---|", *rows]),
    ]


def _unit(unit: float) -> str:
    return "" if unit == 1 else f", in units of {unit:g}"


def _range(spec: laws.Parameter) -> str:
    unit = "" if spec.unit == "1" else f" {spec.unit}"
    return f"{spec.start[0]:g} to {spec.start[1]:g}{unit}"
