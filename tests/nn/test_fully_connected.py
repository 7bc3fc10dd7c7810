"""The fully connected network against its formula, its errors, and its training beside others."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from posattn import tasks
from posattn.errors import PosattnError
from posattn.nn import FullyConnected, FullyConnectedNetwork
from posattn.train import Data, Evaluation, Fleet, Optimiser, Trial
from train.small import SHARP, SUMMANDS, difference, shaken


def samples() -> tuple[Any, Tensor]:
    drawing = torch.Generator().manual_seed(1)
    sizes = {"length": 11, "dim": 3, "subset_size": 2}
    return tasks.get("selection").sample(5, **sizes, generator=drawing, dtype=torch.float64)


def test_a_network_is_relu_layers_on_tokens_and_the_subsets_indicator() -> None:
    network = FullyConnectedNetwork(
        length=11, dim=3, widths=(7, 5), generator=torch.Generator().manual_seed(0)
    ).double()
    (x, subset, key), _ = samples()
    found = network(x, subset, key).detach().numpy()
    p = {name: weight.detach().numpy() for name, weight in network.weights().items()}
    for row in range(5):
        state = np.concatenate([x[row].numpy().ravel(), np.isin(np.arange(11), subset[row].numpy()).astype(float)])
        for layer in range(3):
            state = state @ p[f"layer{layer}_weight"] + p[f"layer{layer}_bias"]
            state = np.maximum(state, 0) if layer < 2 else state
        np.testing.assert_allclose(found[row], state, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_networks_bad_sizes_and_inputs_are_one_clear_error() -> None:
    for widths, words in (((), "at least one hidden layer"), ((0,), "widths\\[0\\]=0")):
        with pytest.raises(PosattnError, match=words):
            FullyConnectedNetwork(widths=widths)
    (x, subset, key), _ = samples()
    network = FullyConnectedNetwork(length=12, dim=3).double()
    for inputs, words in (
        ((x, subset, key), "11 tokens: the network takes 12. Build it with length=11"),
        ((x, subset[:, :0], key), "q=0 of 11 tokens"),
        ((x, subset[:1], key), r"subset is \(1, 2\)"),
        ((x, subset.double(), key), "subset is .* torch.float64"),
    ):
        with pytest.raises(PosattnError, match=words):
            network(*inputs)
    one: Any = 100
    with pytest.raises(PosattnError, match=r"widths=100: one whole number for every hidden layer, as \(100,\)"):
        FullyConnectedNetwork(widths=one)


def test_networks_of_several_widths_train_together_each_as_if_alone() -> None:
    trials = [
        Trial(
            task="selection",
            model=FullyConnected(length=6, dim=2, widths=widths),
            data=Data(samples=32, batch=16, fresh=True, options={"length": 6, "dim": 2, "subset_size": 2}),
            optimiser=Optimiser(lr=1e-2, steps=20),
            evaluation=Evaluation(samples=16, sets={"fresh": {"length": 6, "dim": 2, "subset_size": 2}}),
            precision="float64",
            seed=seed,
        )
        for seed, widths in enumerate([(3, 7), (5, 4), (3, 7)])
    ]
    together = Fleet(trials, device="cpu")
    list(together.run())
    moved = shaken(trials)
    for replica, trial in enumerate(trials):
        alone = Fleet([trial], device="cpu")
        list(alone.run())
        limit = SUMMANDS * difference(together.weights(replica), moved.weights(replica))
        assert difference(together.weights(replica), alone.weights(0)) <= limit < SHARP
        fresh = [fleet.scores()[k]["fresh"].loss for fleet, k in ((together, replica), (moved, replica), (alone, 0))]
        assert abs(fresh[0] - fresh[2]) <= SUMMANDS * (abs(fresh[0] - fresh[1]) + 2**-52) < SHARP
