"""The script that writes notebooks as pages, for tests."""

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def script() -> Any:
    spec = importlib.util.spec_from_file_location("site_notebooks", ROOT / "docs" / "site" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
