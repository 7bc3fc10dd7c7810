import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Learn, snap, prove")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Learn, snap, prove

    One positional layer, applied over and over, learns to sort eight numbers. What it has learned is read off in exact
    fractions, and the program that comes out is proved correct.
    """)
    return


@app.cell
def _():
    import torch

    from posattn import tasks
    from posattn.nn import LoopedPositionalTransformer

    generator = torch.Generator().manual_seed(0)
    sort = tasks.get("sort")
    model = LoopedPositionalTransformer(schedule="bitonic", symmetry=("scale", "shift"), generator=generator)

    steps = 600
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for _ in range(steps):
        x, y = sort.sample(128, length=8, blocks=True, generator=generator)  # sorted blocks of 2, 4 and 8 numbers
        loss = (model(x, every=True) - y).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        cosine.step()
    print(f"mean squared error on eight numbers: {loss.item():.1g}")
    return generator, model, sort, torch


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    It has never seen more than eight numbers. Here are 65,536:
    """)
    return


@app.cell
def _(generator, model, torch):
    many = 4 * torch.rand(1, 65_536, 1, generator=generator) - 2
    with torch.no_grad():
        error = model(many)[0, :, 0] - many[0, :, 0].sort().values
    relative = (error.square().mean() / many.square().mean()).sqrt().item()
    print(f"relative error on 65,536 numbers: {relative:.1g}")
    assert relative < 1e-4
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Snap

    The MLP sees one number, the difference of two, and without biases it is two slopes for each role: the lower node of
    a pair and the upper one. They are near simple fractions. ε is the largest distance from them.
    """)
    return


@app.cell
def _(generator, model, sort):
    from posattn.nn import law
    from posattn.train.polish import polish

    polished = polish(model, sort.sample(16, length=8, blocks=True, generator=generator))  # least squares, in float64
    for name, one in {"trained": model, "polished": polished}.items():
        found = law.law(one)
        print(f"{name}: {found}; ε = {float(found.epsilon):.1g}")
    assert law.law(polished).snapped == ((0, -1), (1, 0))
    return (polished,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ε bounds the error for every input at any length, here as a share of (max x − min x)/2:
    """)
    return


@app.cell
def _(model, polished):
    from posattn.theory.looped_errors import error_bound

    for length in (8, 1_024, 65_536):
        bounds = [f"{error_bound(one, length).value:.1g}" for one in (model, polished)]
        print(f"{length:6} numbers: at most {bounds[0]} as trained, {bounds[1]} polished")
    return (error_bound,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Prove

    The snapped step and its schedule make a program. Compiled, it is proved to sort 16 numbers, for every input of the
    domain and rounding included. On random inputs the trained model stays within its bound of that program.
    """)
    return


@app.cell
def _(error_bound, generator, polished):
    from posattn.compile import compile
    from posattn.compile.learned_program import agreement, learned_program

    program = learned_program(polished, 16)
    proof = compile(program).prove()
    for step in proof.steps:
        print(f"{step.number}. {step.claim}")
    print(str(proof).splitlines()[-1])
    assert proof.holds
    assert proof.specified

    bound = error_bound(polished, 16, rounding=True).value
    assert agreement(polished, program, bound=bound, generator=generator).holds
    return


if __name__ == "__main__":
    app.run()
