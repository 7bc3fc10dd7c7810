"""The models' functions re-associated for speed: what fleets run in place of a model's own forward pass."""
