"""A constant times a word is linear: one round multiplies by a matrix."""

import numpy as np
import pytest
import torch

from posattn import PosattnError
from posattn.compile import Program, Round, compile, load, reads, word

x, c = word("x"), word("c")


def matrix_vector(matrix: np.ndarray) -> Program:
    size = len(matrix)
    total = sum((word(f"a{j}") * word(f"x{j}") for j in range(1, size)), word("a0") * word("x0"))
    return Program(
        name="matrix-vector",
        length=size,
        nodes=size,
        registers=("x", *(f"a{j}" for j in range(size))),
        constants={f"a{j}": tuple(matrix[:, j].tolist()) for j in range(size)},
        rounds=(Round(receive={f"x{j}": reads("x", [j] * size) for j in range(size)}, update={"x": total}),),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_matrix_times_a_vector_is_one_round(dtype, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(8, 8)).round(2)
    matrix[2, 3] = matrix[5, 1] = 0
    made = compile(matrix_vector(matrix), domain=10, dtype=dtype).verify(samples=40)
    numbers = np.random.default_rng(1).uniform(-10, 10, (50, 8))
    certificate = made.certificate
    assert certificate is not None
    assert certificate.holds
    assert certificate.bound is not None
    assert made.model.architecture.depth == 1
    found = made(torch.from_numpy(numbers).to(dtype)).double().numpy()
    exact = numbers.astype(str(dtype).removeprefix("torch.")).astype(float) @ matrix.T
    assert np.abs(found - exact).max() <= 10 * certificate.bound
    made.save(tmp_path / "made")
    assert torch.equal(load(tmp_path / "made")(torch.from_numpy(numbers).to(dtype)).double(), torch.from_numpy(found))


def program(update, **options) -> Program:
    defaults = {"constants": {"c": (0.5, 2.0, 0.0)}, "registers": ("x", "c"), "rounds": (Round(update={"x": update}),)}
    return Program(name="p", length=3, nodes=3, **(defaults | options))


def test_a_factor_can_be_any_expression_of_constants_and_is_exact_for_powers_of_two():
    made = compile(program((c + 2) * (x - 1) + c * c), domain=8)
    assert made(torch.tensor([3.0, -2.0, 7.0])).tolist() == [2.5 * 2 + 0.25, 4 * -3 + 4.0, 2 * 6.0]


def test_a_constant_that_comes_from_another_node_is_one_too():
    round_ = Round(receive={"far": reads("c", [2, 0, None])}, update={"x": word("far") * x})
    made = compile(program(x, rounds=(round_,)), domain=8)
    assert made(torch.tensor([3.0, -2.0, 7.0])).tolist() == [0.0, -1.0, 0.0]


def test_registers_the_program_has_already_are_not_taken():
    made = compile(program(c * word("other0"), registers=("x", "c", "other0"), inputs=("other0",)), domain=8)
    assert made(torch.tensor([3.0, -2.0, 7.0])).tolist() == [1.5, -4.0, 0.0]


def test_a_register_that_was_updated_is_no_longer_a_constant():
    rounds = (Round(update={"c": c + x}), Round(update={"x": c * x}))
    with pytest.raises(PosattnError) as caught:
        compile(program(x, rounds=rounds), domain=8)
    assert "multiplies two values that both depend on the input:\n  - round 2, register 'x': c·x" in str(caught.value)
    assert "allow a fit, fit=64" in str(caught.value)


def test_two_words_are_multiplied_by_a_fit_where_one_is_allowed():
    made = compile(program(x * x), domain=2, fit=65).verify(samples=8)
    assert made.certificate is not None
    assert [name for name, _ in made.certificate.fits] == ["product"]
    assert made(torch.tensor([1.5, -1.0, 0.0])).tolist() == pytest.approx([2.25, 1.0, 0.0], abs=2e-3)


def test_factors_are_worked_out_in_exact_fractions():
    """0.3 − 0.05 is not a quarter as floats go, and the product is off by what a quarter is off."""
    for one, other in ((0.3, 0.05), (0.7, 0.1), (0.57, 0.29)):
        constants = {"c": (one,) * 3, "d": (other,) * 3}
        made = compile(
            program((c - word("d")) * x, registers=("x", "c", "d"), constants=constants), dtype=torch.float64
        ).verify(samples=20)
        assert made.certificate is not None
        assert made.certificate.holds
