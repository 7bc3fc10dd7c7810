"""Every shape annotation of posattn is checked while the tests run, and every process keeps to one thread."""

from pathlib import Path

import jaxtyping
import pytest
import torch

jaxtyping.install_import_hook("posattn", "typecheck.checked")

# Tests run in as many processes as there are cores: more threads would wait for each other.
torch.set_num_threads(1)


@pytest.fixture
def as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the runtime checks of annotations, which nobody has outside these tests: our own errors must do."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random GPT-2 of one layer and width 32, and a tokenizer with a token for every character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from posattn.tasks.mixed import GLYPHS

    made, end = tmp_path_factory.mktemp("tiny"), "<|endoftext|>"
    glyphs = sorted(set(GLYPHS) | set(" ,.:0123456789Answer"))
    tokenizer = Tokenizer(models.WordLevel({glyph: code for code, glyph in enumerate([end, *glyphs])}, unk_token=end))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.Fuse()  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end).save_pretrained(made)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = GPT2Config(vocab_size=len(glyphs) + 1, n_positions=192, n_embd=32, n_layer=1, n_head=2)
        config.bos_token_id = config.eos_token_id = 0
        GPT2LMHeadModel(config).save_pretrained(made)
    return made
