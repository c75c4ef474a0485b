# ===- finite_differences.py - Gradients from outside -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Holds gradients against differences of the loss."""


def check_central_differences(loss, parameters, gradients, random, draws):
    """Compares `draws` elements of each gradient, drawn from `random`, with central
    differences of `loss()`, which reads `parameters`."""
    assert gradients.keys() == parameters.keys()
    # A central difference errs by step^2 f'''/6 + 2^-53 |f| / step. With
    # step = 1e-5 and |f|, |f'''| up to 1e2 and 1e3 both are below 1e-7.
    step, tolerance = 1e-5, 1e-6
    for name, parameter in parameters.items():
        assert gradients[name].shape == parameter.shape
        for _ in range(draws):
            at = tuple(random.integers(0, extent) for extent in parameter.shape)
            kept = parameter[at]
            parameter[at] = kept + step
            above = loss()
            parameter[at] = kept - step
            below = loss()
            parameter[at] = kept
            difference = (above - below) / (2 * step)
            assert abs(gradients[name][at] - difference) < tolerance, (name, at)
