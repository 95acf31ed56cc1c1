"""Files that other tools write, as tables with jaxlaw's names: a module a tool."""

from jaxlaw.data.formats import _hf_trainer as hf_trainer
from jaxlaw.data.formats import _lm_eval as lm_eval
from jaxlaw.data.formats import _tensorboard as tensorboard
from jaxlaw.data.formats import _wandb as wandb
from jaxlaw.data.formats._base import (
    FORMATS,
    format_of_names,
    read_format,
    read_source,
    with_values,
)

__all__ = [
    "FORMATS",
    "format_of_names",
    "hf_trainer",
    "lm_eval",
    "read_format",
    "read_source",
    "tensorboard",
    "wandb",
    "with_values",
]
