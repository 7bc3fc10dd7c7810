"""What several tests of training share."""

import shutil
from pathlib import Path

import pytest

from posattn.train.language.fine_tune import NEW_TOKENS
from posattn.train.language.pretrained import Language, load


@pytest.fixture
def language(tiny_gpt2: Path) -> Language:
    return load(str(tiny_gpt2), new_tokens=NEW_TOKENS)


@pytest.fixture
def copied(tiny_gpt2: Path, tmp_path: Path) -> Path:
    """A copy of the model's folder, to be spoilt."""
    return Path(shutil.copytree(tiny_gpt2, tmp_path / "copied"))
