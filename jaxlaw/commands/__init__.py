"""What the ``jaxlaw`` command does, a module a room; needs typer, which is an extra."""
