"""Serve the lab on this machine, and only to it: bound to 127.0.0.1, and nothing is sent or fetched elsewhere."""

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posattn.errors import PosattnError, missing_extra, require
from posattn.lab.calls import CheckedCalls, taken
from posattn.lab.limits import MOST_UPLOAD, whole
from posattn.lab.work import Jobs

HOST = "127.0.0.1"
#: Gradio's settings: it sends nothing, and keeps what is uploaded in the lab's own folder.
SETTINGS = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1"}
#: Small print and buttons that can be read, on light and on dark.
LIGHT, DARK, BUTTON = "#52525b", "#c4c4cc", "#1d4ed8"


def serve(
    store: str | os.PathLike[str] = "runs",
    *,
    port: int | None = None,
    browser: bool = True,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C or SIGTERM. `store`: the results that Runs shows; `ready` is given its address."""
    shown = Path(store)
    require(shown.is_dir() or not shown.exists(), f"'{shown}' is a file: the lab shows a folder of results.")
    if port is not None:
        port = whole("port", port, least=1, most=65_535)
    jobs = Jobs()
    threading.Thread(target=jobs.warm_up, daemon=True).start()  # torch is imported while Gradio is
    with (
        _terminable() as asked,  # before there is a folder to clear
        tempfile.TemporaryDirectory(prefix="posattn-lab-", ignore_cleanup_errors=True) as folder,
    ):
        os.environ |= SETTINGS | {"GRADIO_TEMP_DIR": folder}
        try:
            from gradio.themes import Base
        except ImportError:
            raise missing_extra("the lab", "lab") from None
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware

        from posattn.lab.embed import STYLE, head
        from posattn.lab.page import build
        from posattn.lab.wiring import Wiring

        theme = Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]).set(
            block_info_text_color=LIGHT, block_info_text_color_dark=DARK,
            body_text_color_subdued=LIGHT, body_text_color_subdued_dark=DARK,
            button_primary_background_fill=BUTTON, button_primary_background_fill_dark=BUTTON,
            button_primary_text_color="white", button_primary_text_color_dark="white",
        )  # fmt: skip
        page = build(Wiring(jobs), store=str(shown), folder=folder)
        try:
            _, address, _ = page.queue().launch(
                server_name=HOST, server_port=port, inbrowser=browser, share=False, quiet=True, show_error=True,
                prevent_thread_lock=True, max_file_size=MOST_UPLOAD, ssr_mode=False, footer_links=[], theme=theme,
                css=STYLE, head=head(), enable_monitoring=False, mcp_server=False, pwa=False,
                app_kwargs={"middleware": [
                    Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
                    Middleware(CheckedCalls, takes=taken(page.fns), folder=folder),
                ]},
            )  # fmt: skip
        except OSError as error:
            said = str(error) if port is None else "it is in use, or not yours to open"
            raise PosattnError(f"port={port}: {said}. Name another port, or none.") from None
        try:
            ready(address)
            while page.is_running:
                if asked:  # and something that was being imported swallowed the exception
                    raise asked[0]
                time.sleep(0.1)
        finally:
            jobs.close()
            logging.getLogger("uvicorn.error").disabled = True  # an open page has a connection, which is cut
            if page.server is not None:
                page.server.force_exit = True
            page.close(verbose=False)


@contextmanager
def _terminable() -> Iterator[list[BaseException]]:
    """Have Ctrl-C and SIGTERM end the lab by an exception, which is yielded: its folder and processes are cleared."""
    asked: list[BaseException] = []

    def end(number: int, _: Any) -> None:
        if not asked:  # else it is being cleared up already
            asked.append(KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number))
            raise asked[0]

    if threading.current_thread() is not threading.main_thread():  # it hears no signals
        yield asked
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
