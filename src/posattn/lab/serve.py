"""Serve the lab on this machine, and only to it: bound to 127.0.0.1, and nothing is sent or fetched elsewhere."""

import os
import tempfile
import threading
from collections.abc import Callable

from posattn import checks
from posattn.errors import PosattnError, missing_extra, require
from posattn.lab.limits import MOST_UPLOAD

HOST = "127.0.0.1"
#: The ports that are tried where none is named.
PORTS = range(7860, 7960)


def serve(
    store: str | os.PathLike[str] = "runs",
    *,
    port: int | None = None,
    browser: bool = True,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve the page until Ctrl-C. `store`: the results that Runs shows; `ready` is called with the page's address."""
    shown = checks.folder("store", store)
    require(shown.is_dir() or not shown.exists(), f"'{shown}' is a file: the lab shows a folder of results.")
    if port is not None:
        checks.whole("port", port, least=1, most=65_535)
    with tempfile.TemporaryDirectory(prefix="posattn-lab-") as folder:
        os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_TEMP_DIR": folder, "HF_HUB_OFFLINE": "1"}
        try:
            from gradio.themes import Base
        except ImportError:
            raise missing_extra("the lab", "lab") from None
        from posattn.lab.embed import FRAMES, STYLE
        from posattn.lab.page import build
        from posattn.lab.wiring import Wiring
        from posattn.lab.work import Jobs

        jobs = Jobs()
        page = build(Wiring(jobs), store=str(shown), folder=folder)
        theme = Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
        try:
            _, address, _ = page.queue(api_open=True).launch(
                server_name=HOST, server_port=port, inbrowser=browser, share=False, quiet=True, show_error=True,
                prevent_thread_lock=True, max_file_size=MOST_UPLOAD, ssr_mode=False, footer_links=[], theme=theme,
                css=STYLE, head=FRAMES, enable_monitoring=False, mcp_server=False, pwa=False,
            )  # fmt: skip
        except OSError as error:
            raise PosattnError(f"port={port}: {error}. Name another port, or none.") from None
        threading.Thread(target=jobs.warm_up, daemon=True).start()
        ready(address)
        page.block_thread()
