"""Files that other tools write, as tables with jaxlaw's names: a module a tool."""

from jaxlaw.formats import hf_trainer, lm_eval, tensorboard, wandb
from jaxlaw.formats.base import FORMATS, read_format, short_names, with_values

__all__ = [
    "FORMATS",
    "hf_trainer",
    "lm_eval",
    "read_format",
    "short_names",
    "tensorboard",
    "wandb",
    "with_values",
]
