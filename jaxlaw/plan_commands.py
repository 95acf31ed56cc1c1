"""The commands ``jaxlaw plan …``; needs typer, which is an extra."""

from __future__ import annotations

import typer

plan = typer.Typer(
    help="Answer a question with a fitted law.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
