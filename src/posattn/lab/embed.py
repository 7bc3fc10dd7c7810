"""Pages in frames, and how a job goes, as HTML for the lab's page.

A page is whole, with its own style and script, so it lies in a frame that can reach nothing else. It tells the lab how
high it is, at once, since a frame out of sight is not laid out, and whenever that changes.
"""

from posattn.html import render
from posattn.lab.shown import Page, Shown
from posattn.lab.work import Explanation, Progress

STYLE = """
.how .html-container, .shown .html-container { padding: 0 !important; }
.gradio-container .max_value, .gradio-container .min_value { color: var(--body-text-color-subdued); }
iframe.page { width: 100%; min-height: 8rem; border: 1px solid var(--border-color-primary); border-radius: .5rem;
  background: Canvas; margin: .4rem 0; display: block; }
.explanation { border-left: .3rem solid #D55E00; padding: .5rem .8rem; overflow-wrap: anywhere; white-space: pre-line; }
.program textarea { font-family: ui-monospace, monospace; font-size: .85rem; }
.working { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap; padding: .3rem 0; }
.working progress { flex: 1; min-width: 8rem; height: .9rem; accent-color: #0072B2; }
"""


def head() -> str:
    """For the lab's own head: a frame becomes as high as the page in it says."""
    return render("lab/listener.html")


def framed(page: Page) -> str:
    """A page in a frame."""
    html = page.html.replace("</body>", f"{render('lab/height.html')}</body>")
    return render("lab/frame.html", title=page.title, html=html)


def result(shown: Shown) -> str:
    return "".join(framed(page) for page in shown.pages)


def status(event: Progress | Shown | Explanation, budget: float) -> str:
    """How a job goes: a bar, nothing when it is done, or why there is no answer."""
    if isinstance(event, Shown):
        return ""
    if isinstance(event, Explanation):
        return render("lab/job.html", explanation=event.text)
    return render("lab/job.html", explanation=None, note=event.note, taken=event.seconds, budget=f"{budget:g}")
