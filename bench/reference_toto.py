"""The public references that nowcast is measured against, in one process: `toto-ts` as published, and PyTorch with the
same algorithmic savings as nowcast (one shared prefill, last patch only, folded heads)."""

import time
import warnings

import pandas as pd
import torch

warnings.filterwarnings("ignore")

from toto.data.util.dataset import MaskedTimeseries  # noqa: E402
from toto.inference.forecaster import TotoForecaster  # noqa: E402
from toto.model.toto import Toto  # noqa: E402


def load(checkpoint):
    return Toto.load_from_checkpoint(str(checkpoint), strict=False).eval()


class Context:
    """The last values of a column; a missing one is masked and repeats the value before it, as nowcast does."""

    def __init__(self, csv, column, context):
        column = pd.read_csv(csv)[column]
        self.values = torch.from_numpy(column.ffill().to_numpy("float32")[-context:].copy())[None]
        self.valid = torch.from_numpy(column.notna().to_numpy()[-context:].copy())[None]


def inputs(context):
    values = context.values
    return MaskedTimeseries(
        series=values,
        padding_mask=context.valid,
        id_mask=torch.zeros_like(values),
        timestamp_seconds=torch.zeros_like(values),
        time_interval_seconds=torch.full((values.shape[0],), 86_400),
    )


class Published:
    """`toto-ts` as its documentation uses it."""

    def __init__(self, model):
        self.forecaster = TotoForecaster(model.model)

    @torch.inference_mode()
    def forecast(self, context, horizon, samples, samples_per_batch=128):
        return self.forecaster.forecast(
            inputs(context), prediction_length=horizon, num_samples=samples, samples_per_batch=samples_per_batch
        )

    @torch.inference_mode()
    def mean_path(self, context, horizon):
        return self.forecaster.forecast(inputs(context), prediction_length=horizon, num_samples=None).mean


class WithSavings:
    """One forward pass to the folded mixture parameters of the next patch; no sampling."""

    def __init__(self, model):
        self.backbone = backbone = model.model
        patch, width = backbone.patch_embed.patch_size, backbone.embed_dim
        head = backbone.output_distribution
        heads = torch.cat([part.weight for part in (head.df, head.loc_proj, head.scale_proj, head.mixture_weights)])
        unembed = backbone.unembed.weight.double().view(patch, width, width)
        with torch.inference_mode():
            folded = torch.einsum("hd,pde->phe", heads.double(), unembed)
            self.folded = folded.reshape(-1, width).float().contiguous()

    @torch.inference_mode()
    def forward(self, context, bfloat16=False):
        x, valid = context.values[None], context.valid[None]
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            scaled, _, _ = self.backbone.scaler(
                x, weights=torch.ones_like(x), padding_mask=valid, prefix_length=x.shape[-1]
            )
            hidden, ids = self.backbone.patch_embed(scaled, torch.zeros_like(x))
            last = self.backbone.transformer(hidden, ids, None)[:, :, -1]
            return torch.nn.functional.linear(last, self.folded)


def milliseconds(call):
    started = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - started), result
