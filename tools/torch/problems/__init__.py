"""Problems by workload: inputs as arrays, and PyTorch's results in f64.

A module has `CASES` (workload: shapes, and variants by direction) and `problem(workload, direction, shape, dtype, rng)`, which
gives inputs by name, and a function from the same in f64 to outputs by name.
"""

from . import attention, cache, delta_rule, encoder, experts, images, linear, primitives, quantize, rows, state_space, step, tables
from . import training, transforms

MODULES = [rows, attention, cache, linear, training, step, encoder, tables, images, primitives, quantize, transforms, state_space]
MODULES += [delta_rule, experts]
CASES = {workload: (module, *cases) for module in MODULES for workload, cases in module.CASES.items()}
