"""What a model can be asked to compute."""

import json

from rich.table import Table

from posattn.cli.app import Json, app
from posattn.cli.output import print_table


@app.command("tasks")
def list_tasks(as_json: Json = False) -> None:
    """List the tasks: what each one computes, with an example.

    In Python: task = posattn.tasks.get("sort"); x, y = task.sample(1000, generator=torch.Generator()).
    """
    from posattn import tasks

    found = [tasks.get(name) for name in tasks.names()]
    if as_json:
        rows = [
            {"task": task.name, "computes": task.summary, "example": task.example(), "metric": task.metric_name}
            for task in found
        ]
        print(json.dumps(rows))
        return
    table = Table("task", "computes", "example", title="What a model can be asked to compute")
    for task in found:
        table.add_row(task.name, task.summary, task.example())
    print_table(table)
