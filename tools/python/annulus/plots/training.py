"""Pictures of a training."""
import numpy as np

from annulus import arguments
from annulus.errors import AnnulusError
from annulus.plots import style


@arguments.checked(result=arguments.dataset)
def loss(result):
    """Loss over the steps of `annulus train`: entry i is the loss before update i, the last entry the loss at the
    end."""
    if "loss" not in result or result["loss"].ndim != 1:
        raise AnnulusError("result has no loss; expected the result of annulus train, or its checkpoint")
    values = result["loss"].values
    with style.look():
        figure = style.figure()
        axes = figure.subplots()
        axes.plot(np.arange(len(values)), values, color=style.COLOURS["blue"], marker="o" if len(values) <= 40 else "",
                  label="1 / (2 N) sum (y - target)²")
        if (values > 0).all():
            style.plain_log(axes)
        axes.set_xlabel("step")
        axes.set_ylabel("loss")
        axes.set_title(f"{len(values) - 1:,} steps, from {values[0]:.4g} to {values[-1]:.4g}", loc="left")
        axes.legend(frameon=False)
        return figure
