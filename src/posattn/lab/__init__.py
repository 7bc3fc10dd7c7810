"""An interactive page on this machine: type numbers and watch Transformers work on them (extra `lab`).

`posattn lab` serves it. Every tab is a function of what its user gives, in a file of its own, which knows nothing of
Gradio; `page` wires them to the controls, and `work` runs them, each in a process that can be ended.
"""
