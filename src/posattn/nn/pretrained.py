"""Models in the form of the Hugging Face hub: a folder with weights, configuration and model card.

    model.safetensors   what `save` writes; `posattn.load` reads it too
    config.json         the architecture
    README.md           the model card

Methods have the names and the meaning that `huggingface_hub.ModelHubMixin` gives them. Only a model that is on the hub
needs the extra `hub`; nothing is unpickled, and no code that comes with a model is run.
"""

import json
import os
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from posattn import checks
from posattn.errors import PosattnError, missing_extra, require
from posattn.files import make_folder, read_json, write_whole
from posattn.nn.architecture import Architecture, from_json
from posattn.nn.model_card import model_card
from posattn.nn.weights import read_header

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
MESSAGE = "Push model using posattn."

Read = TypeVar("Read", bound="Pretrained")


class Pretrained:
    """What can be saved to a folder, read from it, and pushed to the hub."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file."""

    #: The class below posattn that reads it, as the model card says.
    reader: ClassVar[str]

    @classmethod
    @abstractmethod
    def _read(cls: type[Read], path: Path) -> Read:
        """What `save` wrote, which must be of this class."""

    @abstractmethod
    def _described(self) -> tuple[Architecture, str]:
        """Its architecture, and what else a model card says of it, in Markdown."""

    def save_pretrained(self, save_directory: str | os.PathLike[str], *, about: str = "") -> None:
        """Write weights, configuration and model card into a folder. A card that is there already stays as it is.

        Args:
            save_directory: the folder, which is made if it is not there.
            about: what else the model card says, in Markdown: what it was trained on, and how well it does.
        """
        folder = checks.folder("save_directory", save_directory)
        require(isinstance(about, str), f"about={about!r}: it must be text for the model card.")
        require(folder.is_dir() or not folder.exists(), f"'{folder}' is a file: name a folder.")
        make_folder(folder)
        architecture, own = self._described()
        self.save(folder / WEIGHTS)
        write_whole(folder / CONFIG, _config(architecture).encode())
        if not (folder / CARD).exists():
            card = model_card(architecture, reader=self.reader, about="\n\n".join(filter(None, (own, about))))
            write_whole(folder / CARD, card.encode())

    @classmethod
    def from_pretrained(
        cls: type[Read],
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
    ) -> Read:
        """The model in a folder, or in a repository of the hub; what is downloaded is kept in the hub's cache.

        Args:
            pretrained_model_name_or_path: a folder that `save_pretrained` wrote, or a repository, as "user/name".
            force_download: download it even if the cache has it.
            token: for private repositories; True is the one that `hf auth login` keeps.
            cache_dir: where downloads are kept; None is the hub's own cache.
            local_files_only: take it from the cache, without a network.
            revision: a branch, a tag or a commit of the repository.
        """
        name = str(checks.folder("pretrained_model_name_or_path", pretrained_model_name_or_path))
        options = {
            "force_download": checks.switch("force_download", force_download),
            "token": token if isinstance(token, bool) else _word("token", token),
            "cache_dir": None if cache_dir is None else _cache(cache_dir),
            "local_files_only": checks.switch("local_files_only", local_files_only),
            "revision": _word("revision", revision),
        }
        folder = Path(name) if Path(name).is_dir() else _downloaded(name, options)
        require(
            (folder / WEIGHTS).is_file(),
            f"'{name}' holds no {WEIGHTS}: save_pretrained writes it; a single file is read by posattn.load.",
        )
        if (folder / CONFIG).is_file():
            _check_config(folder)
        return cls._read(folder / WEIGHTS)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        about: str = "",
        commit_message: str = MESSAGE,
        private: bool | None = None,
        token: str | None = None,
        branch: str | None = None,
        create_pr: bool | None = None,
    ) -> str:
        """Upload what `save_pretrained` writes in one commit, and give back its URL. Needs the extra `hub`.

        Args:
            repo_id: the repository, as "user/name", which is made if it is not there.
            about: what else the model card says, in Markdown.
            commit_message: of the commit.
            private: whether a repository that is made is private; None is the account's own choice.
            token: of the account; None is the one that `hf auth login` keeps.
            branch: the branch to push to; None is main.
            create_pr: whether to open a pull request instead of pushing.
        """
        target = {"repo_id": checks.text("repo_id", repo_id), "private": _chosen("private", private), "exist_ok": True}
        commit = {
            "commit_message": checks.text("commit_message", commit_message),
            "revision": _word("branch", branch),
            "create_pr": _chosen("create_pr", create_pr),
        }
        token = _word("token", token)
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise missing_extra("pushing a model to the hub", "hub") from None
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, about=about)
            try:
                api = HfApi(token=token)
                made = api.create_repo(**target).repo_id
                return api.upload_folder(repo_id=made, repo_type="model", folder_path=folder, **commit)
            except (OSError, ValueError) as error:  # what the hub's own errors derive from
                raise PosattnError(
                    f"repo_id={repo_id!r}: the hub does not take it ({_first_line(error)}). Check the name, the "
                    "network and your token, `hf auth login`."
                ) from None


def _word(name: str, value: Any) -> str | None:
    return None if value is None else checks.text(name, value)


def _chosen(name: str, value: Any) -> bool | None:
    return None if value is None else checks.switch(name, value)


def _cache(value: Any) -> Path:
    folder = checks.folder("cache_dir", value)
    require(folder.is_dir() or not folder.exists(), f"cache_dir='{folder}' is a file: downloads need a folder.")
    return folder


def _config(architecture: Architecture) -> str:
    return json.dumps({"library": "posattn"} | json.loads(architecture.to_json()), indent=2) + "\n"


def _check_config(folder: Path) -> None:
    """Who changes config.json alone would believe to have another model."""
    held = read_json(folder / CONFIG, fix=f"remove it, {WEIGHTS} has its own")
    stated = from_json(read_header(folder / WEIGHTS).get("architecture", ""))
    require(
        held == json.loads(_config(stated)),
        f"'{folder / CONFIG}' describes another model than {WEIGHTS}, whose own description counts: put back the "
        "original, or remove it.",
    )


def _downloaded(name: str, options: dict[str, Any]) -> Path:
    """The folder in the hub's cache that holds a repository's weights and configuration."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise missing_extra(f"'{name}' is not a folder here, and reading it from the hub", "hub") from None
    try:
        return Path(snapshot_download(name, allow_patterns=[WEIGHTS, CONFIG], **options))
    except (OSError, ValueError) as error:
        raise PosattnError(
            f"'{name}' is not a folder here, and the hub does not give it ({_first_line(error)}): check the name, the "
            "network and your token."
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
