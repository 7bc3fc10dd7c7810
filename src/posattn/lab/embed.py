"""Pages in frames, and how a job goes, as HTML for the lab's page.

A page is whole, with its own style and script, so it lies in a frame that can reach nothing else. It tells the lab how
high it is.
"""

from html import escape

from posattn.lab.shown import Page, Shown
from posattn.lab.work import Explanation, Progress

#: For the lab's own head: a frame becomes as high as the page in it says. `null` is the origin of sandboxed frames.
FRAMES = """
<script>
addEventListener("message", event => {
  const frame = [...document.querySelectorAll("iframe.page")].find(one => one.contentWindow === event.source);
  if (frame && Number.isFinite(event.data.height)) frame.style.height = Math.min(event.data.height, 6000) + "px";
});
</script>
"""
#: For the page: it tells its height at once, since a frame out of sight is not laid out, and whenever that changes.
TELL = """<script>
{
  const tell = () => parent.postMessage({height: Math.ceil(document.body.getBoundingClientRect().height) + 8}, "*");
  tell();
  new ResizeObserver(tell).observe(document.body);
}
</script>
"""
STYLE = """
.how .html-container, .shown .html-container { padding: 0 !important; }
.gradio-container .max_value, .gradio-container .min_value { color: var(--body-text-color-subdued); }
iframe.page { width: 100%; min-height: 8rem; border: 1px solid var(--border-color-primary); border-radius: .5rem;
  background: Canvas; margin: .4rem 0; display: block; }
.explanation { border-left: .3rem solid #D55E00; padding: .5rem .8rem; overflow-wrap: anywhere; }
.program textarea { font-family: ui-monospace, monospace; font-size: .85rem; }
.working { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap; padding: .3rem 0; }
.working progress { flex: 1; min-width: 8rem; height: .9rem; accent-color: #0072B2; }
"""


def framed(page: Page) -> str:
    """A page in a frame."""
    html = page.html.replace("</body>", f"{TELL}</body>")
    return (
        f'<iframe class="page" title="{escape(page.title)}" sandbox="allow-scripts allow-downloads" '
        f'srcdoc="{escape(html)}"></iframe>'
    )


def result(shown: Shown) -> str:
    return "".join(framed(page) for page in shown.pages)


def status(event: Progress | Shown | Explanation, budget: float) -> str:
    """How a job goes: a bar, nothing when it is done, or why there is no answer."""
    if isinstance(event, Shown):
        return ""
    if isinstance(event, Explanation):
        return f'<p class="explanation" role="alert">{escape(event.text)}</p>'
    left = f"{event.note}, {event.seconds:.1f} of {budget:g} s"
    bar = f'<progress max="{budget:g}" value="{event.seconds:.2f}" aria-label="time taken"></progress>'
    return f'<div class="working">{bar}<span>{escape(left)}</span></div>'
