import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Homogeneous against standard")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Homogeneous against standard

    Two small Transformers learn cumulative sums of eight numbers in [−2, 2], and are tested on [−2c, 2c]. The standard
    one attends by value. The homogeneous one attends by position and has no biases, so that f(c·x) = c·f(x) for every
    c > 0, whatever it has learned.
    """)
    return


@app.cell
def _():
    from posattn.nn import Positional, Standard

    sizes = {"length": 8, "layers": 2, "embed_dim": 32, "hidden_dim": 32}
    models = {"standard": Standard(**sizes), "homogeneous": Positional(**sizes, symmetry=("scale",))}
    return (models,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A trial describes one training run completely. Trials of one shape train as one program.
    """)
    return


@app.cell
def _(models):
    import tempfile

    from posattn import engine
    from posattn.train import Data, Evaluation, Optimiser, Trial

    scales = (1, 2, 3, 5, 10)
    trials = {
        name: [
            Trial(
                task="sum",
                model=model,
                data=Data(samples=4_000, batch=200, options={"length": 8}),
                optimiser=Optimiser(steps=600, lr=2e-3, schedule="cosine"),
                evaluation=Evaluation(
                    samples=500,
                    sets={
                        f"c={c}": {"low": -2 * c, "high": 2 * c, "avoid": (-2, 2) if c > 1 else None} for c in scales
                    },
                ),
                seed=seed,
            )
            for seed in range(3)
        ]
        for name, model in models.items()
    }
    store = engine.run([trial for group in trials.values() for trial in group], out=tempfile.mkdtemp(), device="cpu")
    return engine, scales, store, trials


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Mean squared error, median of three seeds:
    """)
    return


@app.cell
def _(engine, scales, store, trials):
    scores = engine.frame(store.folder)
    scores["model"] = scores["trial"].map({trial.id: name for name, group in trials.items() for trial in group})
    losses = scores.groupby(["model", "set"])["loss"].median().unstack()[[f"c={c}" for c in scales]]
    print(losses.map("{:.2g}".format).to_string())
    assert losses.loc["standard", "c=10"] > 10 * losses.loc["homogeneous", "c=10"]
    return losses, scores


@app.cell
def _(losses, scales):
    from matplotlib.figure import Figure

    def drawn():
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        panel = figure.subplots()
        for arm in losses.index:
            panel.plot(scales, losses.loc[arm], marker="o", label=arm)
        panel.set_title("Trained on cumulative sums of numbers in [−2, 2]", fontsize=10)
        panel.set(xlabel="c: tested on [−2c, 2c]", ylabel="mean squared error", yscale="log", xscale="log")
        panel.set_xticks(scales, [str(c) for c in scales])
        panel.minorticks_off()
        panel.legend(frameon=False)
        return figure

    drawn()
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    600 steps are few, and neither model has learned the sum well. But on inputs that are 1,024 times as large, the
    homogeneous model's answers are exactly 1,024 times as large, so its relative error is what it was.
    """)
    return


@app.cell
def _(store, trials):
    import torch

    import posattn

    x = torch.randn(1, 8, 1, generator=torch.Generator().manual_seed(0))
    for name, group in trials.items():
        model = posattn.load(store.path(group[0]) / "weights.safetensors")
        ratio = (model(1024 * x) / model(x)).flatten()
        print(f"{name}: f(1024·x) / f(x) from {ratio.min():.4g} to {ratio.max():.4g}")
        if name == "homogeneous":
            assert torch.equal(model(1024 * x), 1024 * model(x))
    return


if __name__ == "__main__":
    app.run()
