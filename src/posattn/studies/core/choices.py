"""What a study leaves to choose: the values an option may have, and how one is checked."""

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from posattn.errors import require, unknown


class Kind(ABC):
    """Values that cannot be listed."""

    what: ClassVar[str]

    @abstractmethod
    def fits(self, text: str) -> bool:
        """Whether the text has the form of such a value."""

    def asked(self, option: str, text: str) -> str:
        """The value as it is kept, checked against this machine when a user asks for it."""
        return text


class Number(Kind):
    what = "a number"  # above 0

    def fits(self, text: str) -> bool:
        try:
            return 0 < float(text) < math.inf
        except ValueError:
            return False


class LanguageModel(Kind):
    what = "a folder or a name on the hub"

    def fits(self, text: str) -> bool:
        return bool(text.strip()) and "\0" not in text

    def asked(self, option: str, text: str) -> str:
        """With ~ expanded. What can only be a folder must be one; FOLDER or OWNER/NAME may be either."""
        found = os.path.expanduser(text)
        is_path = os.path.isabs(found) or found.startswith((".", "~")) or found.count("/") > 1
        require(
            not is_path or os.path.isdir(found),
            f"option {option}={text}: there is no such folder. Name one that holds config.json, model.safetensors and "
            "the tokenizer's files, or a model on the hub, as gpt2.",
        )
        return found


@dataclass(frozen=True)
class Choice:
    """One option of a study.

    `values` are those that can be listed, the default first; a `kind` allows others. `arms` are the models that it
    concerns: with another value they begin anew, and the others stay (none named: all of them begin anew). `formerly`
    is the value that stood for it before the option was there.
    """

    values: tuple[str, ...]
    kind: Kind | None = None
    arms: tuple[str, ...] = ()
    formerly: str | None = None

    @property
    def default(self) -> str:
        return self.values[0]

    @property
    def known(self) -> tuple[str, ...]:
        """What it may be, in words: the values, and what others are where there are others."""
        return (*self.values, self.kind.what) if self.kind else self.values

    def allowed(self, option: str, value: str) -> str:
        """The value, or the error that says what it may be."""
        if value not in self.values and not (self.kind and self.kind.fits(value)):
            raise unknown(f"value of option {option}", value, self.known)
        return value

    def asked(self, option: str, value: str) -> str:
        """The same, checked against this machine too."""
        self.allowed(option, value)
        return value if value in self.values or self.kind is None else self.kind.asked(option, value)
