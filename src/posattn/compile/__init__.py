"""From a parallel algorithm to the weights of a positional Transformer that computes it exactly.

    program = posattn.compile.library.get("sort", 16)
    sorter = posattn.compile.compile(program, domain=1000)
    sorter(torch.tensor([3.0, 1.0, 2.0]))

`expressions` is the language of local functions, `program` what a program is, `interpreter` runs one as written,
`lower` makes the weights, `certificate` says how well they agree.
"""
