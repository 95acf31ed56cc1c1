"""The laws; importing the package registers them."""

from jaxlaw.laws import downstream, mixture, scaling  # noqa: F401
from jaxlaw.laws.base import get, names  # noqa: F401
