import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="Watch a sort")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    return (mo,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Watch a sort

    A Transformer sorts eight numbers. It was not trained: its weights come from a sorting network. Attention moves
    numbers between nodes by position alone, and the MLP of each layer keeps the smaller or the larger of two.
    """)
    return


@app.cell
def _():
    import torch

    import posattn.compile as pc
    from posattn.compile.show import draw, trace

    program = pc.library.get("sort", 8)
    x = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
    print(trace.text(program, x[:, None].double().numpy()))
    return draw, pc, program, x


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Who reads from whom is decided before any number is seen. That is the whole of the communication:
    """)
    return


@app.cell
def _(draw, program):
    draw.draw(program)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Compiled, each round becomes a layer. `verify` tries hundreds of inputs against NumPy, and against a bound on their
    rounding errors that holds for every input in the domain.
    """)
    return


@app.cell
def _(pc, program, x):
    sorter = pc.compile(program, domain=1000).verify()
    print(sorter.certificate)
    print(sorter(x))
    return (sorter,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    It is an ordinary PyTorch module, so its inside can be watched. Register `x` of every node after each layer, and the
    node that node 0 attends to:
    """)
    return


@app.cell
def _(sorter, x):
    for step in sorter.model.trace(x[None, :, None]):
        numbers = " ".join(f"{number:g}" for number in step.state[0, :, 0].tolist())
        read = "" if step.attention is None else f"   node 0 reads node {step.attention[0, 0].argmax().item()}"
        print(f"{step.name:10} {numbers}{read}")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Attention is the same for every input, with weights of exactly 0 and 1:
    """)
    return


@app.cell
def _(sorter):
    from posattn import report

    attention = sorter.model.attention()  # no input needed
    assert set(attention.unique().tolist()) == {0.0, 1.0}
    report.attention_map(attention, "sort, length 8")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A certificate is a test. A proof holds for every input (`pip install 'posattn[proof]'`):
    """)
    return


@app.cell
def _(sorter):
    proof = sorter.prove()
    assert proof.holds
    for found in proof.steps:
        print(f"{found.number}. {found.claim}")
    print(str(proof).splitlines()[-1])
    return


if __name__ == "__main__":
    app.run()
