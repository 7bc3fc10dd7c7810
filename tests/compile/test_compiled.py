"""Compiled programs: what they take, what they refuse and where, and a file that holds all of them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import posattn
from compile.models import library_model
from posattn import PosattnError, PositionalTransformer
from posattn.compile import Compiled, Program, Round, call, compile, library, load, product, reads, word
from posattn.nn import ExactPositionalTransformer
from posattn.nn.weights import read_header, write_weights

PREFIXES: dict[str, tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray]]] = {
    "cumsum": ({}, np.cumsum),
    "cummin": ({}, np.minimum.accumulate),
    "cummax": ({}, np.maximum.accumulate),
    "cummedian": ({}, lambda v: np.array([np.median(v[: i + 1]) for i in range(len(v))])),
    "sort": ({}, np.sort),
    "argsort": ({}, lambda v: np.argsort(v, kind="stable")),
    "max-subarray": (
        {},
        lambda v: np.array(
            [max(v[a:b].sum() for a in range(end) for b in range(a + 1, end + 1)) for end in range(1, len(v) + 1)]
        ),
    ),
    "reduce": ({}, lambda v: np.full(len(v), v.sum())),
    "reduce min": ({"operation": "min"}, lambda v: np.full(len(v), v.min())),
    "reduce max": ({"operation": "max"}, lambda v: np.full(len(v), v.max())),
    "broadcast": ({}, lambda v: np.full(len(v), v[0])),
}
#: Programs of one length only.
WHOLE: dict[str, dict[str, Any]] = {"permute": {}, "broadcast": {"source": 2}, "fetch": {}}


@pytest.fixture(scope="module")
def made() -> dict[str, Compiled]:
    return {name: compile(library.get(name.split()[0], 8, **options)) for name, (options, _) in PREFIXES.items()}


@pytest.fixture(scope="module")
def sorter() -> Compiled:
    return compile(library.get("sort", 5), domain=10)


# ---- what they take


def test_every_form_of_a_call_gives_the_same(sorter):
    values, expected = [3.0, -1.0, 2.5], torch.tensor([-1.0, 2.5, 3.0])
    assert torch.equal(sorter(torch.tensor(values)), expected)
    assert torch.equal(sorter(torch.tensor([values, values])), expected.expand(2, 3))
    assert torch.equal(sorter(torch.tensor([values])[:, :, None]), expected[None, :, None])
    assert torch.equal(sorter(torch.tensor(values, dtype=torch.float64)), expected)
    assert torch.equal(sorter(torch.tensor([3, -1, 2])), torch.tensor([-1.0, 2.0, 3.0]))
    assert sorter(torch.tensor(values, requires_grad=True)).requires_grad is False
    assert sorter(torch.zeros(0, 3)).shape == (0, 3)
    assert sorter(torch.zeros(2, 5, 1)).shape == (2, 5, 1)


def test_a_double_model_keeps_what_single_precision_would_lose():
    made = compile(library.get("sort", 3), dtype=torch.float64, domain=1)
    x = torch.tensor([1 / 3, 0.2, 1 / 3 + 1e-12], dtype=torch.float64)
    assert made(x).dtype == torch.float64
    assert torch.allclose(made(x), x.sort().values, rtol=0, atol=1e-15)


def test_programs_with_two_inputs_or_outputs_have_a_third_axis():
    fetch = library_model("fetch", 3)
    x = torch.tensor([[[7.0, 2], [8, 0], [9, 1]]])
    assert fetch(x).tolist() == [[[9.0], [7.0], [8.0]]]
    for wrong in (x[0], x[:, :, 0], x[0, :, 0]):
        with pytest.raises(PosattnError, match=r"'fetch' takes \(batch, length, 2\)"):
            fetch(wrong)
    both = Program(
        name="both",
        length=2,
        nodes=2,
        registers=("x", "double"),
        outputs=("x", "double"),
        rounds=(Round(update={"double": 2 * word("x")}),),
    )
    assert compile(both)(torch.tensor([1.0, 3.0])).tolist() == [[1.0, 2.0], [3.0, 6.0]]
    assert compile(both)(torch.tensor([[1.0, 3.0]])).shape == (1, 2, 2)


@pytest.mark.parametrize("name", PREFIXES)
@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(st.integers(-1000, 1000), min_size=1, max_size=8),
    ends=st.sampled_from([(), (1000,), (-1000,), (0, 0)]),
)
def test_shorter_inputs_are_filled_up(made, name, values, ends):
    numbers = np.array([*values, *ends][-8:], dtype=np.float64)
    if name != "argsort":
        numbers = numbers / 8  # exact in float32, and no integers
    expected = PREFIXES[name][1](numbers)
    found = made[name](torch.from_numpy(numbers))
    assert found.shape == (len(numbers),)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=8000 * 1e-6)
    assert torch.equal(made[name].harden()(torch.from_numpy(numbers)), found)


@pytest.mark.parametrize(("domain", "grid"), [(0.3, 0.1), (0.7, 0.1), (2.0, 0.5), (1000.0, 0.1), (3.3, 0.25)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_fills_up_lies_above_every_number_of_the_grid(domain, grid, dtype):
    made = compile(library.get("argsort", 4, grid=grid), domain=domain, dtype=dtype)
    top = round(domain / grid - 0.4999) if grid == 0.25 else round(domain / grid)
    keys = np.array([top, top - 1, top])
    assert made(torch.tensor(np.round(keys * grid, 9), dtype=torch.float64)).tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_multiple_of_a_grid_is_taken_however_it_was_computed(dtype):
    made = compile(library.get("argsort", 1, grid=0.1), dtype=dtype)
    whole = torch.arange(-9999, 10000)
    forms = (whole.float() * 0.1, whole.double() * 0.1, whole.double() / 10, whole.float() / 10, whole.to(dtype) / 10)
    for numbers in forms:
        if dtype == torch.float64 and numbers.dtype == torch.float32:
            continue
        made.check(numbers.to(dtype)[:, None, None])


@pytest.mark.parametrize("name", WHOLE)
def test_programs_of_one_length_refuse_shorter_inputs(name):
    made = compile(library.get(name, 4, **WHOLE[name]))
    x = torch.arange(3.0)[None, :, None].repeat(1, 1, len(made.program.inputs))
    with pytest.raises(PosattnError, match=rf"3 numbers: '{name}' works on exactly 4, shorter inputs cannot be filled"):
        made(x)


def test_composed_programs_have_one_length():
    made = compile(library.get("sort", 4).then(library.get("cumsum", 4)))
    assert made(torch.tensor([3.0, 1, 2, 0])).tolist() == [0.0, 1.0, 3.0, 6.0]
    with pytest.raises(PosattnError, match="works on exactly 4"):
        made(torch.tensor([3.0, 1.0]))


def test_a_permutation_cannot_be_filled_up_whatever_the_program_says():
    made = library_model("fetch", 3)
    made = replace(made, program=replace(made.program, pad=0.0, recipe=None))
    with pytest.raises(PosattnError, match="works on exactly 3"):
        made(torch.tensor([[[7.0, 1], [8, 0]]]))


# ---- what they refuse

NAN, INF = float("nan"), float("inf")
BAD: dict[str, tuple[Any, str]] = {
    "above": ([[1.0, 2], [3, 10.5]], r"holds 10\.5 at \[1, 1\], which lies outside ±10, where the model is certified"),
    "below": ([-10.001, 2], r"holds -10\.001 at \[0, 0\], which lies outside ±10"),
    "NaN": ([0.0, 1, NAN], r"holds nan at \[0, 2\], which lies outside ±10"),
    "infinite": ([0.0, INF], r"holds inf at \[0, 1\], which lies outside ±10"),
    "long": ([0.0] * 6, "6 numbers: the model was compiled for length 5. Compile it for a longer one"),
    "nothing": ([], r"the input has shape \(1, 0, 1\): it holds no numbers"),
    "a number": (3.0, "the input is a single number"),
    "a cube": ([[[[1.0]]]], r"shape \(1, 1, 1, 1\): 'sort' takes \(batch, length, 1\)"),
    "two features": ([[[1.0, 2.0]]], r"shape \(1, 1, 2\): 'sort' takes \(batch, length, 1\)"),
}


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("x", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_its_place(sorter, x, said, hard):
    made = sorter.harden() if hard else sorter
    with pytest.raises(PosattnError, match=said):
        made(torch.tensor(x))


def test_the_bounds_themselves_are_inside():
    for domain in (0.1, 1 / 3, 10, 1e6):
        made = compile(library.get("cummax", 3), domain=domain)
        assert made(torch.tensor([-domain, domain, 0.0], dtype=torch.float64))[2] == np.float32(domain)


def test_numbers_off_the_grid_are_refused_with_their_place():
    made = compile(library.get("argsort", 3))
    with pytest.raises(PosattnError, match=r"holds 2\.5 at \[1, 0\], which is not a multiple of 1, and 'argsort'"):
        made(torch.tensor([[1.0, 2], [2.5, 0]]))
    with pytest.raises(PosattnError, match=r"holds 999\.99994 at \[0, 1\], which is not a multiple of 1"):
        made(torch.tensor([1.0, 999.99994]))  # one unit in the last place below 1000
    finer = compile(library.get("argsort", 3, grid=0.1))
    with pytest.raises(PosattnError, match=r"holds 0\.25 at \[0, 0\], which is not a multiple of 0\.1"):
        finer(torch.tensor([0.25, 0.3]))


@pytest.mark.parametrize("addresses", [[0.0, 0, 2], [1.0, 2, 3], [0.0, 1, -2], [0.5, 1, 2], [0.0, 1, NAN]])
def test_addresses_must_be_a_permutation(addresses):
    made = library_model("fetch", 3)
    good = torch.tensor([[7.0, 2], [8, 0], [9, 1]])
    bad = good.clone()
    bad[:, 1] = torch.tensor(addresses)
    with pytest.raises(PosattnError, match=r"'from' of sample 1 is .*: it must hold every number of 0 … 2 once"):
        made(torch.stack([good, bad]))


@pytest.mark.parametrize("domain", [0.0, -1.0, NAN, INF])
def test_a_domain_is_a_finite_number_above_0(domain):
    with pytest.raises(PosattnError, match=rf"domain={domain}: .*finite number"):
        compile(library.get("sort", 3), domain=domain)


# ---- files


def custom() -> Program:
    return Program(
        name="all-sum",
        length=4,
        nodes=4,
        registers=("x",),
        rounds=tuple(
            Round(
                receive={"other": reads("x", [node ^ mask for node in range(4)])},
                update={"x": word("x") + word("other")},
            )
            for mask in (1, 2)
        ),
    )


KEPT: dict[str, Callable[[], Program]] = {
    **{name: lambda name=name: library.get(name, 2 if name == "fetch" else 4) for name in library.PROGRAMS},
    "reduce max": lambda: library.get("reduce", 5, operation="max"),
    "argsort fine": lambda: library.get("argsort", 4, grid=0.25),
    "own": custom,
    "composed": lambda: custom().then(library.get("sort", 4)),
}


@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_a_file_gives_back_all_of_it(make, tmp_path):
    made = compile(make(), domain=20).verify(samples=8)
    path = tmp_path / "made.safetensors"
    made.save(path)
    back = load(path)
    for field in ("domain", "encoding", "registers", "fits", "certificate", "hardened"):
        assert getattr(back, field) == getattr(made, field)
    assert str(back.program) == str(made.program)
    assert back.summary() == made.summary()
    assert back.verify(samples=8).certificate == made.certificate
    rng = np.random.default_rng(3)
    x = rng.integers(-20, 21, (9, made.program.length, len(made.program.inputs)))
    if made.program.permutations:
        x[:, :, 1] = [rng.permutation(made.program.length) for _ in x]
    assert torch.equal(back(torch.from_numpy(x)), made(torch.from_numpy(x)))
    # the same file, as a model
    model = posattn.load(path)
    assert isinstance(model, ExactPositionalTransformer)
    assert torch.equal(model(torch.from_numpy(x).float()), made(torch.from_numpy(x)))
    with pytest.raises(PosattnError, match=r"length 1 and the model was compiled for .*posattn\.compile\.load"):
        model(torch.from_numpy(x[:, :1]).float())
    header = read_header(path)
    assert header["text"] == str(made.program)


def test_a_fit_is_kept_with_its_error(tmp_path):
    program = replace(custom(), rounds=(Round(update={"x": call(product, word("x"), word("x"))}),))
    made = compile(program, domain=2, fit=9, dtype=torch.float64).verify(samples=8)
    made.save(tmp_path / "made")
    back = load(tmp_path / "made")
    assert back.fits == made.fits
    assert [name for name, _ in back.fits] == ["product"]
    assert back.certificate == made.certificate
    assert next(back.model.parameters()).dtype == torch.float64


def test_what_was_not_verified_has_no_certificate(tmp_path):
    compile(custom()).save(tmp_path / "made")
    assert load(tmp_path / "made").certificate is None


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "sort.safetensors"
    compile(library.get("sort", 4)).verify(samples=2).save(path)
    return path


def rewritten(path: Path, change: Callable[[dict[str, str]], Any]) -> Path:
    with safetensors.safe_open(path, framework="pt") as file:
        header, tensors = dict(file.metadata()), safetensors.torch.load(path.read_bytes())
    change(header)
    safetensors.torch.save_file(tensors, path, metadata=header)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(PosattnError) as caught:
        load(path)
    assert caught.value.__cause__ is None
    assert f"'{path}'" in str(caught.value)
    return str(caught.value)


def about(**changes: Any) -> Callable[[dict[str, str]], Any]:
    return lambda header: header.update(compiled=json.dumps(json.loads(header["compiled"]) | changes))


def other(program: Program) -> Callable[[dict[str, str]], Any]:
    from posattn.compile import program_json as serial

    return lambda header: header.update(program=serial.to_json(program))


DAMAGED: dict[str, tuple[Callable[[dict[str, str]], Any], str]] = {
    "no program": (lambda h: h.pop("program"), "holds no compiled program"),
    "no description": (lambda h: h.pop("compiled"), "holds no compiled program"),
    "a program that is none": (lambda h: h.update(program="print(1)"), "not the description of a program"),
    "an empty description": (lambda h: h.update(compiled="{}"), "cannot be loaded as a compiled program: 'domain'"),
    "a list": (lambda h: h.update(compiled="[]"), "cannot be loaded as a compiled program"),
    "deep": (lambda h: h.update(compiled="[" * 100_000), "cannot be loaded as a compiled program"),
    "deep certificate": (lambda h: h.update(certificate="[" * 100_000), "not a certificate"),
    "a number for a certificate": (lambda h: h.update(certificate="3"), "not a certificate"),
    "half a certificate": (lambda h: h.update(certificate='{"digest": "0"}'), "not a certificate"),
    "no domain": (about(domain=None), "cannot be loaded as a compiled program"),
    "domain of text": (about(domain="wide"), "cannot be loaded as a compiled program"),
    "domain NaN": (about(domain=NAN), "domain=nan: it must be a finite number"),
    "domain infinite": (about(domain=INF), "domain=inf: it must be a finite number"),
    "domain huge": (about(domain=10**400), "cannot be loaded as a compiled program"),
    "domain 0": (about(domain=0), "its domain is 0"),
    "registers by number": (about(registers=7), "cannot be loaded as a compiled program"),
    "fits": (about(fits=[["exp"]]), "cannot be loaded as a compiled program"),
    "another length": (other(library.get("sort", 5)), "the model does not belong to its program"),
    "another node": (other(library.get("cummedian", 4)), "the model does not belong to its program"),
    "another input": (other(library.get("fetch", 4)), "the model does not belong to its program"),
    "another kind": (
        lambda h: h.update(architecture=h["architecture"].replace("positional-exact", "positional")),
        "the model is not a compiled one",
    ),
    "another architecture": (lambda h: h.update(architecture="{}"), "cannot be loaded: not the description of a model"),
    "another format": (lambda h: h.update(posattn="2"), "Install a newer posattn"),
}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("change", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_header_is_one_clear_error(saved, change, said):
    assert said in complaint(rewritten(saved, change))


def test_a_program_of_the_same_sizes_with_other_weights_fails_its_certificate(saved):
    rewritten(saved, other(library.get("cummax", 4)))
    assert "are not those that were verified" in complaint(saved)


def test_a_weight_changed_in_the_file_by_one_bit_is_an_error_on_load(saved):
    tensors = safetensors.torch.load(saved.read_bytes())
    with safetensors.safe_open(saved, framework="pt") as file:
        header = dict(file.metadata())
    for name in ("mlp_out_weight", "encoding", "constants", "query_weight"):
        changed = {key: tensor.clone() for key, tensor in tensors.items()}
        flat = changed[name].view(-1)
        at = int(flat.nonzero()[0])
        flat[at] = torch.nextafter(flat[at], torch.tensor(2 * float(flat[at])))
        safetensors.torch.save_file(changed, saved, metadata=header)
        assert "are not those that were verified" in complaint(saved)


def test_a_domain_or_a_program_changed_in_the_file_is_an_error_on_load(saved):
    whole = saved.read_bytes()
    for change in (about(domain=2000.0), lambda h: h.update(program=h["program"].replace("compare", "swap"))):
        saved.write_bytes(whole)
        assert "are not those that were verified" in complaint(rewritten(saved, change))


@pytest.mark.parametrize(
    "change", [{"bound": 1.0}, {"error": 0.0}, {"random": 10**6}, {"relative_to": "the moon"}, {"domain": 1e9}], ids=str
)
def test_a_certificate_changed_in_the_file_is_an_error_on_load(saved, change):
    def edited(header: dict[str, str]) -> None:
        header["certificate"] = json.dumps(json.loads(header["certificate"]) | change)

    assert "are not those that were verified" in complaint(rewritten(saved, edited))


def test_another_domain_than_the_certified_one_is_refused():
    made = compile(library.get("sort", 3)).verify(samples=2)
    with pytest.raises(PosattnError, match=r"the domain is 1e\+30 and was certified as 1000"):
        replace(made, domain=1e30)(torch.tensor([1e20, 1.0, 2.0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_in_half_precision_are_numbers(dtype):
    made = compile(library.get("sort", 8), domain=1e6)
    assert made(torch.tensor([3.0, 1.0, 2.5], dtype=dtype)).tolist() == [1.0, 2.5, 3.0]


def test_a_certificate_without_a_digest_loads_as_unverified(saved):
    def older(header: dict[str, str]) -> None:
        held = json.loads(header["certificate"])
        header["certificate"] = json.dumps({k: v for k, v in held.items() if k not in ("digest", "bound")})

    back = load(rewritten(saved, older))
    assert back.certificate is None
    assert back.verify(samples=2).certificate is not None


def test_weights_that_changed_since_they_were_verified_are_not_saved_with_that_certificate(saved):
    whole = saved.read_bytes()
    made = load(saved)
    with torch.no_grad():
        made.model.get_parameter("layers.0.mlp_out.weight").mul_(2)
    with pytest.raises(PosattnError, match="verify it again"):
        made.save(saved)
    assert saved.read_bytes() == whole


def test_a_file_cut_anywhere_is_damaged(saved):
    whole = saved.read_bytes()
    for cut in {0, 7, 8, 100, *range(200, len(whole), len(whole) // 29), len(whole) - 1}:
        saved.write_bytes(whole[:cut])
        assert "damaged or is not a safetensors file" in complaint(saved)
        with pytest.raises(PosattnError, match="damaged or is not a safetensors file"):
            read_header(saved)


@pytest.mark.usefixtures("as_users_run_it")
def test_a_changed_byte_in_the_header_raises_nothing_else(saved):
    whole = saved.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    refused = 0
    for at in range(0, end, 41):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 7]) + whole[at + 1 :])
        try:
            load(saved)
        except PosattnError:
            refused += 1
    assert refused > end / 41 / 2


def test_a_trained_model_is_no_compiled_program(tmp_path):
    PositionalTransformer(length=4).save(tmp_path / "m")
    assert "holds no compiled program. posattn compile writes one; posattn.load reads other models" in complaint(
        tmp_path / "m"
    )
    assert "is not there: check the path" in complaint(tmp_path / "missing")
    assert "is a folder" in complaint(tmp_path)


def test_notes_stand_in_the_header_beside_the_architecture(tmp_path):
    model = PositionalTransformer(length=4, embed_dim=4, hidden_dim=3, layers=1)
    write_weights(tmp_path / "plain", model.architecture, model.weights())
    write_weights(tmp_path / "noted", model.architecture, model.weights(), notes={"by": "Žofie “&”\n"})
    plain, noted = read_header(tmp_path / "plain"), read_header(tmp_path / "noted")
    assert plain == {"posattn": "1", "architecture": model.architecture.to_json()}
    assert noted == plain | {"by": "Žofie “&”\n"}
    x = torch.randn(2, 4, 1)
    assert torch.equal(posattn.load(tmp_path / "noted")(x), model(x))  # other entries do no harm


def test_a_file_that_cannot_be_written_changes_nothing(saved, sorter):
    whole = saved.read_bytes()
    with pytest.raises(PosattnError, match="cannot write"):
        sorter.save(saved.parent / "missing" / "sort")
    own = call(lambda v: v, word("x"), name="own")
    made = compile(replace(custom(), rounds=(Round(update={"x": own}),)), fit=5)
    with pytest.raises(PosattnError, match="function of your own cannot be saved"):
        made.save(saved)
    assert saved.read_bytes() == whole
    assert list(saved.parent.iterdir()) == [saved]


# ---- summary


def test_the_summary_counts_what_the_model_has():
    assert compile(library.get("sort", 4)).summary() == (
        "sort: 4 nodes, 3 layers, 1 head, state 5, MLP 1 × 8; binary encoding of 2 dimensions"
    )
    assert compile(library.get("broadcast", 3)).summary().startswith("broadcast: 3 nodes, 1 layer, 1 head, state 1,")


def test_numbers_are_checked_as_they_were_given_and_not_as_they_are_rounded():
    made = compile(library.get("argsort", 4)).verify(samples=2)
    for numbers, words in (([2, 1.00000001, 1, 3], "not a multiple of 1"), ([1000.00000001, 0, 0, 0], "outside ±1000")):
        with pytest.raises(PosattnError, match=words):
            made(torch.tensor(numbers, dtype=torch.float64))
    with pytest.raises(PosattnError, match="real numbers"):
        made(torch.tensor([1j, 2, 3, 4]))


def test_autocast_does_not_reach_a_compiled_model_and_another_dtype_is_refused():
    made = compile(library.get("sort", 3)).verify(samples=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for one in (made, made.harden()):
            assert one(torch.tensor([2.5, -1.23, -0.7])).tolist() == pytest.approx([-1.23, -0.7, 2.5], rel=1e-6)
        assert made.verify(samples=2).certificate == made.certificate
    made.model.double()
    with pytest.raises(PosattnError, match="certified in float32"):
        made(torch.tensor([2.5, -1.23, -0.7]))


def test_a_program_changed_since_the_library_made_it_is_saved_and_loaded(tmp_path):
    made = compile(replace(library.get("sort", 3), pad=None)).verify(samples=2)
    made.save(tmp_path / "m")
    assert load(tmp_path / "m").program.pad is None
