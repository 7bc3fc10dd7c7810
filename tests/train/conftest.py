"""What several tests of training share."""

import jaxtyping
import pytest


@pytest.fixture
def as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime checks of annotations, which nobody has outside these tests: our own errors must do."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
