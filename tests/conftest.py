"""Every shape annotation of posattn is checked while the tests run."""

import jaxtyping

jaxtyping.install_import_hook("posattn", "typecheck.checked")
