"""What the tests of several tasks share."""

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture
def as_installed() -> Iterator[None]:
    """Annotations unchecked, as they are for a user: a wrong shape then meets posattn's own error, not beartype's."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
