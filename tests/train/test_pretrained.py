"""A pretrained model that is there, one that is broken, and one that is out of reach: the model or one clear reason."""

import contextlib
import json
import logging
import re
import time
from typing import Any

import pytest
import torch

from posattn import PosattnError
from posattn.train.language import pretrained
from posattn.train.language.pretrained import load
from posattn.train.runnable import Unreachable

pytestmark = pytest.mark.usefixtures("as_users_run_it")

FOLDER_HINT = "name a folder that holds its config.json, model.safetensors and tokenizer files"


def refused(message: str, kind: type[PosattnError] = PosattnError) -> Any:
    return pytest.raises(kind, match=re.escape(message))


@pytest.mark.parametrize("offline", [True, False])
def test_a_hub_out_of_reach_is_asked_once(offline, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there

    def sleep(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s to try again")

    monkeypatch.setattr(time, "sleep", sleep)
    with refused("model 'nobody/no-model' cannot be loaded (", Unreachable) as caught:
        load("nobody/no-model", new_tokens=8)
    message = str(caught.value)
    assert FOLDER_HINT in message
    assert "posattn run mixed-type --option gpt2=FOLDER" in message
    assert "\n" not in message
    assert len(message) < 500


def test_the_question_to_the_hub_has_a_time_limit(monkeypatch, tmp_path):
    import huggingface_hub

    limits = []

    def model_info(self: object, name: str, *, timeout: float) -> None:
        limits.append((name, timeout))
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    with refused("(TimeoutError: nobody answers)", Unreachable):
        load("nobody/no-model", new_tokens=8)
    assert limits == [("nobody/no-model", pretrained.REACH_SECONDS)]
    assert pretrained.REACH_SECONDS <= 10


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("no weights", "no file named model.safetensors"),
        ("pickled weights", "no file named model.safetensors"),
        ("cut weights", "SafetensorError"),
        ("weights of another width", "its weights lack 16 tensors of its config.json or have them in another size"),
        ("half of the weights", "its weights lack 4 tensors"),
        ("no config", "config.json"),
        ("broken config", "not a valid JSON file"),
        ("own code", "custom code"),
        ("no tokenizer", "its tokenizer makes '' of ' 003.21'"),
        ("no end of text", "its tokenizer has no end-of-text token"),
        ("empty", "Error"),
    ],
)
def test_a_broken_folder_says_what_is_wrong(copied, spoil, reason):
    from safetensors.torch import load_file, save_file

    weights, config = copied / "model.safetensors", copied / "config.json"
    tensors = load_file(weights)
    if spoil in ("no weights", "pickled weights"):
        weights.unlink()
    if spoil == "pickled weights":
        torch.save(tensors, copied / "pytorch_model.bin")
    if spoil == "cut weights":
        weights.write_bytes(weights.read_bytes()[:1000])
    if spoil == "weights of another width":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"n_embd": 34}))
    if spoil == "half of the weights":
        save_file({name: tensors[name] for name in tensors if ".mlp." not in name}, weights, {"format": "pt"})
    if spoil == "no config":
        config.unlink()
    if spoil == "broken config":
        config.write_text("{")
    if spoil == "own code":
        described = {"model_type": "ours", "auto_map": {"AutoConfig": "ours.C", "AutoModelForCausalLM": "ours.M"}}
        config.write_text(json.dumps(described))
        (copied / "ours.py").write_text("raise SystemExit('ran')")
    if spoil == "no tokenizer":
        for path in copied.glob("tokenizer*"):
            path.unlink()
    if spoil == "no end of text":
        path = copied / "tokenizer_config.json"
        described = json.loads(path.read_text())
        described.pop("eos_token")
        path.write_text(json.dumps(described))
    if spoil == "empty":
        for path in copied.iterdir():
            path.unlink()
    with refused(f"model '{copied}' cannot be loaded (", Unreachable) as caught:
        load(str(copied), new_tokens=8)
    assert reason in str(caught.value)
    assert FOLDER_HINT in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_that_is_too_long_for_the_model_is_refused_before_training(language):
    with refused("a text of 185 tokens and 8 for the answer: this model takes 192."):
        language.encode(["A" * 185], room=8)
    assert len(language.encode(["A" * 184], room=8)[0]) == 184


def test_a_tokenizer_of_another_model_is_refused(language):
    language.model.resize_token_embeddings(5)
    with refused("the tokenizer has a token"):
        language.encode(["Answer:"])


def test_transformers_speaks_again_afterwards():
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging as bars

    logger = logging.getLogger("transformers")
    before = (logger.level, bars.is_progress_bar_enabled(), are_progress_bars_disabled())
    try:
        for level, shown in ((logging.INFO, True), (logging.WARNING, False)):
            logger.setLevel(level)
            (bars.enable_progress_bar if shown else bars.disable_progress_bar)()
            with contextlib.suppress(KeyError), pretrained.quiet():
                assert (logger.level, bars.is_progress_bar_enabled()) == (logging.ERROR, False)
                assert are_progress_bars_disabled()
                raise KeyError  # also where training fails
            assert (logger.level, bars.is_progress_bar_enabled()) == (level, shown)
            assert are_progress_bars_disabled() is not shown
    finally:
        logger.setLevel(before[0])
        (bars.enable_progress_bar if before[1] else bars.disable_progress_bar)()
