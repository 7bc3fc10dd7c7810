"""What a store says of a model's training, in words for its model card."""

import os
from pathlib import Path

from posattn.engine.store import scored


def training_notes(weights: str | os.PathLike[str]) -> str:
    """How the model in a store's file was trained and scored, in Markdown; nothing where the file lies elsewhere."""
    folder = Path(weights).parent
    if not all((folder / name).is_file() for name in ("trial.json", "metrics.json")):
        return ""
    rows = scored(folder.name, folder)
    if not rows:
        return ""
    about, last = rows[0], max(row["step"] for row in rows)
    table = "\n".join(f"| {row['set']} | {_shown(row['loss'])} |" for row in rows if row["step"] == last)
    diverged = about.get("diverged_at")
    return (
        f"## Training\n\nTrained on task `{about.get('task')}` for {last} steps, seed {about.get('seed')}"
        f"{'' if diverged is None else f', diverged at step {diverged}'}; trial `{folder.name}` of posattn "
        f"{about.get('version')}, on {about.get('device')}.\n\n| test set | loss |\n|---|---|\n{table}"
    )


def _shown(loss: float | None) -> str:
    return "not finite" if loss is None else f"{loss:.3g}"
