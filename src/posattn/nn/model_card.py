"""The model card that stands beside a model on the hub."""

import json
import math

from posattn.nn.architecture import Architecture
from posattn.version import __version__

CARD = """---
library_name: posattn
license: mit
tags:
- posattn
- {kind}
- safetensors
---

# A {kind} model of posattn

{count:,} parameters in `model.safetensors`, which holds the whole architecture too. Nothing in it is executed.

```python
import posattn.{package}

model = posattn.{reader}.from_pretrained("this repository, or a folder with its files")
```

{about}## Sizes

| | |
|---|---|
{sizes}

Written by posattn {version}.
"""


def model_card(architecture: Architecture, *, reader: str, about: str = "") -> str:
    """What the model is, how it is loaded, and `about`, in Markdown. `reader` is the class below posattn that reads it.

    The license is that of posattn itself; whoever publishes a model may state another.
    """
    fields = json.loads(architecture.to_json())
    return CARD.format(
        kind=fields.pop("kind"),
        count=sum(math.prod(first.shape) for first in architecture.parameters().values()),
        package=reader.split(".")[0],
        reader=reader,
        about=f"{about.strip()}\n\n" if about.strip() else "",
        sizes="\n".join(f"| {name} | {json.dumps(value)} |" for name, value in fields.items()),
        version=__version__,
    )
