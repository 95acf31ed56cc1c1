"""The reference: a page for each family of public names, and where references lead."""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jaxlaw

TOP = "jaxlaw"


class Family(NamedTuple):
    """A page of the reference: the public modules that it lists, after the top-level names."""

    title: str
    modules: tuple[str, ...]


#: File → page. A name at the top level is on the page of the package that it comes from.
FAMILIES = {
    "fit": Family("Fits", ("fitting", "fitting.solvers")),
    "data": Family("Data and schedules", ("data", "data.formats", "schedules")),
    "laws": Family("Laws", ("laws",)),
    "uncertainty": Family("Uncertainty", ("uncertainty",)),
    "validation": Family("Validation", ("validation", "validation.folds")),
    "forecasting": Family("Forecasts", ("forecasting",)),
    "planning": Family("Plans", ("planning",)),
    "design": Family("Design of runs", ("design",)),
    "plots": Family("Plots", ("plots",)),
    "reporting": Family("Reports", ("reporting",)),
    "simulate": Family("Simulated experiments", ("simulate",)),
    "papers": Family("Analyses of papers", ("papers",)),
    "results": Family("Results, notes and errors", ("notes", "errors")),
}
#: What is public by its module's name, and what every result is, which no face lists.
RESULT = "jaxlaw._result.Result"


_ORDER = ("func", "class", "data")


def names_of(module: ModuleType) -> list[str]:
    """Public names: those that a face lists; of a public module without a list, its own."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def public() -> dict[str, Any]:
    """Full name → value of everything public but modules, top level first."""
    packages = (f"{TOP}.{module}" for family in FAMILIES.values() for module in family.modules)
    found = {}
    for package in (TOP, *packages):
        module = importlib.import_module(package)
        for name in names_of(module):
            value = getattr(module, name)
            if not isinstance(value, ModuleType):
                found[f"{package}.{name}"] = value
    return found


def documented() -> dict[str, str]:
    """Full name → the name under which its value has its entry: the first, the shortest."""
    entries: dict[int, str] = {}
    return {name: entries.setdefault(id(value), name) for name, value in public().items()}


def family_of(name: str, value: Any) -> str:
    """The page that has the entry of a name."""
    home = name.rpartition(".")[0]
    if home == TOP:
        home = getattr(value, "__module__", TOP)
        own = {"_areas": "data", "_result": "notes", "_answer": "notes", "_quantities": "notes"}
        home = {f"{TOP}.{module}": f"{TOP}.{page}" for module, page in own.items()}.get(home, home)
    modules = {
        f"{TOP}.{module}": page for page, family in FAMILIES.items() for module in family.modules
    }
    while home and home not in modules:
        home = home.rpartition(".")[0]
    return modules[home]


def pages() -> dict[str, str]:
    """File → text of every page of the reference, in reStructuredText."""
    values, entries = public(), documented()
    texts = {}
    for page, family in FAMILIES.items():
        own = {
            name: value
            for name, value in values.items()
            if entries[name] == name and family_of(name, value) == page
        }
        own = dict(sorted(own.items(), key=lambda item: _ORDER.index(_kind(item[1]))))
        parts = [_heading(family.title, "="), _summary(own)]
        for home in dict.fromkeys(name.rpartition(".")[0] for name in own):
            module = importlib.import_module(home)
            parts.append(_heading(home, "-"))
            parts.append(inspect.getdoc(module) if home != TOP else "")
            parts += [_entry(n, v) for n, v in own.items() if n.rpartition(".")[0] == home]
        if page == "results":
            parts += [_heading("What every result is", "-"), _entry(RESULT, jaxlaw._result.Result)]
        texts[f"{page}.rst"] = "\n\n".join(parts) + "\n"
    listed = "\n   ".join(FAMILIES)
    texts["index.rst"] = (
        f"{_heading('Reference', '=')}\n\nEvery public name, by what it is for; the chapters show "
        "them at work.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n   {listed}\n"
    )
    return texts


def _heading(text: str, sign: str) -> str:
    return f"{text}\n{sign * len(text)}"


def _summary(values: dict[str, Any]) -> str:
    """A table of the names of a page: what each is, in the first line of its docstring."""
    rows = []
    for name, value in values.items():
        kind = _kind(value)
        document = (inspect.getdoc(value) or "") if _kind(value) != "data" else ""
        first = " ".join(document.split("\n\n")[0].split())
        rows.append(f"   * - :{kind}:`{name.removeprefix(TOP + '.')} <{name}>`\n     - {first}")
    return ".. list-table::\n   :widths: 35 65\n   :class: names\n\n" + "\n".join(rows)


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "class"
    return "func" if inspect.isroutine(value) else "data"


def _entry(name: str, value: Any) -> str:
    kind = _kind(value)
    if kind == "class":
        return f".. autoclass:: {name}\n   :members:"
    if kind == "func":
        return f".. autofunction:: {name}"
    value = repr(value)
    shown = f"\n   :value: {value}" if len(value) < 60 else ""
    return f".. py:data:: {name}{shown}\n\n   {_comment(name)}"


def _comment(name: str) -> str:
    """What the comment ``#:`` above a constant says of it, in the module that defines it."""
    package, _, own = name.rpartition(".")
    folder = Path(importlib.import_module(package).__file__).parent
    for file in sorted(folder.glob("*.py")):
        comments = re.findall(rf"((?:^#:.*\n)+){own}\b", file.read_text("utf-8"), re.MULTILINE)
        if comments:
            return " ".join(line.removeprefix("#:").strip() for line in comments[0].splitlines())
    return ""


def resolve(app, env, node, contnode):
    """A reference that Sphinx does not find under its text: what it means, if anything.

    Docstrings name what is beside them in their own module, which the reference lists under its
    public name; type hints name the private module that a class comes from. What exists but is
    not public stays text, and what does not exist is left to be warned of.
    """
    from docutils import nodes

    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    inside = [node.get("py:module") or TOP, node.get("py:class")]
    beside = [name for name in documented() if name.endswith(f".{target.partition('.')[0]}")]
    names = [target, ".".join(filter(None, [*inside, target])), f"{inside[0]}.{target}"]
    names += [f"{name.rpartition('.')[0]}.{target}" for name in beside]
    for name in names:
        if entry := _entry_of(name, env.domains["py"].objects):
            uri = app.builder.get_relative_uri(node["refdoc"], entry[0]) + entry[1]
            return nodes.reference("", "", contnode, internal=True, refuri=uri)
    hint = node["reftype"] in ("class", "obj", "exc")
    elsewhere = hint and not (target.startswith(TOP) and target.replace(".", "").isidentifier())
    return contnode if elsewhere or _value_of(target) is not None else None


def _entry_of(name, objects):
    """(page, anchor) of what a full name means, also where it is an alias or inherited."""
    home, _, member = name.rpartition(".")
    value, owner = _value_of(name), _value_of(home)
    entries = [entries_by_value().get(id(value))] if value is not None else []
    if inspect.isclass(owner):
        for parent in owner.__mro__:
            entry = entries_by_value().get(id(parent))
            if entry and (hasattr(parent, member) or member in inspect.get_annotations(parent)):
                entries += [f"{entry}.{member}", entry]
    for entry in filter(None, entries):
        if entry in objects:
            return objects[entry].docname, f"#{objects[entry].node_id}"
    for page, family in FAMILIES.items():
        if isinstance(value, ModuleType) and name.removeprefix(f"{TOP}.") in family.modules:
            return f"reference/{page}", ""
    return None


@cache
def entries_by_value() -> dict[int, str]:
    """The identity of each public value → the name of its entry."""
    values = public()
    entries = {id(values[name]): entry for name, entry in documented().items()}
    return entries | {id(jaxlaw._result.Result): RESULT}


def _value_of(name: str) -> Any:
    """What a full name is; None where there is no such thing."""
    path = name.split(".")
    if not all(path):
        return None
    for end in range(len(path), 0, -1):
        try:
            value = importlib.import_module(".".join(path[:end]))
        except ImportError:
            continue
        for member in path[end:]:
            value = getattr(value, member, None)
        return value
    return None
