"""Sphinx: how the pages that build.py has put together become a site."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference  # noqa: E402

import jaxlaw  # noqa: E402

project = "jaxlaw"
author = copyright = "the authors of jaxlaw"
version = release = jaxlaw.__version__
root_doc = "index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

# Chapters are read on a host of Git repositories as well: its anchors of headings.
myst_heading_anchors = 4
myst_links_external_new_tab = True

# Arguments and attributes are lists, in which several share one text: ``low, high: its range``.
napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_param = napoleon_use_keyword = False
napoleon_custom_sections = [("Attributes", "params_style")]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "jaxlaw"
html_static_path = [str(Path(__file__).parent / "site.css")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Every reference must lead somewhere: those of docstrings that Sphinx does not resolve by
# itself go through reference.resolve, and what that leaves is a warning, which is an error.
nitpicky = True
_SHELL = re.compile(r"^( *)Shell:$")
_STARRED = re.compile(r"^( +\w[\w, ]*, )\*\*(\w+:)")


def _as_napoleon_reads(app, what, name, obj, options, lines):
    """Two ways of these docstrings that napoleon does not know.

    The section ``Shell:`` is a command line, ready to copy; ``table, **inputs:`` describes two
    arguments together, where the stars would begin bold text.
    """
    lines[:] = [_STARRED.sub(r"\1\*\*\2", line) for line in lines]
    for number, line in enumerate(lines):
        if match := _SHELL.match(line):
            commands = [text.strip() for text in lines[number + 1 :] if text.strip()]
            lines[number:] = [
                f"{match[1]}.. code-block:: console", "",
                *(f"{match[1]}    $ {command}" for command in commands), "",
            ]  # fmt: skip
            return


# What a number must be, for its check, is said in the argument's own description.
_CHECKED = re.compile(r"(?:~?typing\.)?Annotated\[((?:[^\[\],]|\[[^\[\]]*\])+), ~?[\w.]+\(.*?\)\]")


def _without_checks(app, what, name, obj, options, signature, returns):
    """A signature whose type hints are types alone."""
    return (_CHECKED.sub(r"\1", signature), returns) if signature else None


def setup(app):
    """Register what this site adds to Sphinx."""
    app.connect("autodoc-process-docstring", _as_napoleon_reads, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", _without_checks)
    app.connect("missing-reference", reference.resolve)
