"""What the runner's parts share: how they fail."""

EXIT_TIMEOUT = 124
EXIT_FAILED = 125


class Failure(Exception):
    """The runner cannot go on; the text names the thing, the place and the remedy."""
