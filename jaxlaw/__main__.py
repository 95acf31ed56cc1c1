"""``python -m jaxlaw`` is the ``jaxlaw`` command."""

from jaxlaw.cli import main

if __name__ == "__main__":
    main()
