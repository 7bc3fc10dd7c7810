"""Every shape annotation of posattn is checked while the tests run, and every process keeps to one thread."""

import jaxtyping
import torch

jaxtyping.install_import_hook("posattn", "typecheck.checked")

# Tests run in as many processes as there are cores: more threads would wait for each other.
torch.set_num_threads(1)
