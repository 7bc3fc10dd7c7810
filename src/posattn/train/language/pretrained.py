"""A pretrained causal language model with its tokenizer, from a folder, the hub's cache or the hub.

Needs the extra `gpt2`. Only weights in safetensors are read, and no code that comes with a model is run.
"""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from posattn.errors import PosattnError, require
from posattn.train.runnable import Unreachable

#: What is fetched of a model: no file that could hold a pickle.
FILES: Any = {"allow_patterns": ["*.safetensors", "*.json", "*.txt", "*.model"], "ignore_patterns": ["*/*"]}
REACH_SECONDS = 10.0
PROBE = " 003.21"  # what a tokenizer has to give back


class Language(NamedTuple):
    """A language model with its tokenizer, the token that ends a text, and the longest text it takes."""

    model: Any
    tokenizer: Any
    end: int
    longest: int

    def encode(self, texts: list[str], *, room: int = 0, special: bool = True) -> list[list[int]]:
        """The tokens of each text, which must leave `room` for more."""
        tokens = self.tokenizer(texts, add_special_tokens=special)["input_ids"]
        rows = self.model.get_input_embeddings().num_embeddings
        highest, length = max(map(max, tokens)), max(map(len, tokens))
        require(highest < rows, f"the tokenizer has a token {highest}, the model knows {rows}: use the model's own.")
        require(
            length + room <= self.longest,
            f"a text of {length} tokens and {room} for the answer: this model takes {self.longest}. Use another model.",
        )
        return tokens


def load(name: str, *, new_tokens: int) -> Language:
    """The model and tokenizer in a folder, in the hub's cache or on the hub; `Unreachable` where there is none.

    Asked to go on with a text, the model greedily gives up to `new_tokens`.
    """
    check_installed(name)
    from huggingface_hub import HfApi, snapshot_download
    from transformers import GenerationConfig

    try:
        if Path(name).is_dir():
            model, tokenizer = _from_folder(name)
        else:
            try:
                model, tokenizer = _from_folder(snapshot_download(name, local_files_only=True, **FILES))
            except OSError:
                # Downloads are tried again and again for a minute or more: first ask once whether the hub is there.
                revision = HfApi().model_info(name, timeout=REACH_SECONDS).sha
                model, tokenizer = _from_folder(snapshot_download(name, revision=revision, **FILES))
    except Exception as error:  # whatever a broken folder, a name or a network may cause
        raise Unreachable(
            f"model '{name}' cannot be loaded ({_short(error)}): where the hub is out of reach, fetch the model "
            "elsewhere and name a folder that holds its config.json, model.safetensors and tokenizer files, "
            "posattn run mixed-type --option gpt2=FOLDER."
        ) from error
    end, longest = tokenizer.eos_token_id, getattr(model.config, "max_position_embeddings", None)
    # In place of the model's own settings, which may sample, punish repetition or stop early.
    settings = GenerationConfig(max_new_tokens=new_tokens, do_sample=False, pad_token_id=end, eos_token_id=end)
    model.generation_config = settings
    return Language(model, tokenizer, end, longest or sys.maxsize)


def check_installed(name: str) -> None:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise Unreachable(
            f"model '{name}' needs transformers ({_short(error)}): pip install 'posattn[gpt2]'."
        ) from None


def check_usable(name: str) -> None:
    """Raise `Unreachable` where a model cannot be had, before hours are spent on what stands beside it."""
    check_installed(name)
    with quiet():
        load(name, new_tokens=1)


def _from_folder(folder: str) -> tuple[Any, Any]:
    """Model and tokenizer. transformers makes up what a folder lacks, tensors and even a whole tokenizer; we refuse."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    asked: Any = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **asked)
    back = tokenizer.decode(tokenizer(PROBE)["input_ids"], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    require(back.strip() == PROBE.strip(), f"its tokenizer makes {back!r} of {PROBE!r}")
    require(tokenizer.eos_token_id is not None, "its tokenizer has no end-of-text token")
    asked |= {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, **asked)
    model, found = loaded
    wrong = sorted({*found["missing_keys"], *(name for name, *_ in found["mismatched_keys"])})
    require(not wrong, f"its weights lack {len(wrong)} tensors of its config.json or have them in another size")
    return model, tokenizer


def _short(error: Exception) -> str:
    line = next(iter(str(error).strip().splitlines()), "")
    kind = "" if isinstance(error, PosattnError) else f"{type(error).__name__}: "
    return (kind + line)[:200].rstrip(".: ")


@contextmanager
def quiet() -> Iterator[None]:
    """transformers and its hub write errors only, and no progress bars; afterwards they do what they did before."""
    from huggingface_hub import utils as hub
    from transformers.utils import logging as bars

    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    shown, hub_shown = bars.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    with warnings.catch_warnings():  # an environment variable may forbid the change, which is then a warning
        warnings.simplefilter("ignore")
        bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if shown:
                bars.enable_progress_bar()
            (hub.enable_progress_bars if hub_shown else hub.disable_progress_bars)()
