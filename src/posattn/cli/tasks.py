"""What a model can be asked to compute."""

import json

from rich.table import Table

from posattn.cli.app import Json, Plugin, app
from posattn.cli.output import print_table


@app.command("tasks")
def list_tasks(plugin: Plugin = None, as_json: Json = False) -> None:
    """List the tasks: what each one computes, with an example; of installed packages' tasks the names only.

    In Python: task = posattn.tasks.get("sort"); x, y = task.sample(1000, generator=torch.Generator()).
    """
    from posattn import plugins, tasks

    plugins.load_all(plugin)
    found = [tasks.get(name) for name in tasks.names()]
    others = {name: package for name, package in plugins.installed("tasks").items() if name not in tasks.REGISTRY}
    if as_json:
        rows = [
            {"task": task.name, "computes": task.summary, "example": task.example(), "metric": task.metric_name}
            for task in found
        ]
        rows += [{"task": name, "computes": None, "example": None, "metric": None} for name in others]
        print(json.dumps(rows))
        return
    table = Table("task", "computes", "example", title="What a model can be asked to compute")
    for task in found:
        table.add_row(task.name, task.summary, task.example())
    for name, package in others.items():
        table.add_row(name, f"installed by {package}", "–")
    print_table(table)
