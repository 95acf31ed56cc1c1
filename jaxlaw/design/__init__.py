"""Design of experiments: which runs to make next, and at which steps to evaluate them."""

from typing import TYPE_CHECKING

from jaxlaw._faces import face

if TYPE_CHECKING:
    from jaxlaw.design._evaluation_steps import evaluation_steps as evaluation_steps
    from jaxlaw.design._next_runs import next_runs as next_runs
else:
    __getattr__, __dir__, __all__ = face(__name__)
