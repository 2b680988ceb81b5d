"""Trains `nano` on synthetic series. Resumable: run the same command again after an interruption.

The learning rate warms up, stays level, and falls to zero over the last part of the run (warm-up, stable, decay).
A moving average of the weights is what gets exported.
"""

import argparse
import copy
import json
import os
import time

import torch

from batches import Pool, make_batch
from folded_head import agreement, forward, log_probability, mixture
from model_files import new_model, save_checkpoint


def learning_rate(step, arguments):
    warm = min(1.0, (step + 1) / arguments.warm_up)
    left = (arguments.steps - step) / max(1, arguments.steps - arguments.decay_from)
    return arguments.learning_rate * warm * min(1.0, max(left, 0.0))


def losses(model, values, observed, patch_size, robust_width):
    """Negative log likelihood and the package's robust loss of the mean, both of the next patch in scaled units."""
    inputs, inputs_observed = values[..., :-patch_size], observed[..., :-patch_size]
    parameters, location, scale = forward(model.model, inputs, inputs_observed)
    components = mixture(parameters)
    target = (values[..., patch_size:] - location) / scale
    seen = inputs_observed.float().cumsum(-1)
    at_patch_end = seen[..., patch_size - 1 :: patch_size].repeat_interleave(patch_size, -1)
    counted = observed[..., patch_size:] & (at_patch_end >= 16) & (target.abs() < 100)
    target = torch.where(counted, target, 0.0)
    likelihood = -log_probability(components, target)
    _, place, _, log_weight = components
    mean = (log_weight.exp() * place).sum(-1)
    robust = torch.log1p(0.5 * ((mean - target) / robust_width) ** 2)
    number = counted.sum().clamp_min(1)
    return (likelihood * counted).sum() / number, (robust * counted).sum() / number


@torch.no_grad()
def validation_loss(model, batches, arguments):
    model.eval()
    values = [losses(model, *batch, arguments.patch_size, arguments.robust_width) for batch in batches]
    model.train()
    return [float(sum(value[i] for value in values) / len(values)) for i in range(2)]


def save_state(path, **state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for the resume state, the log and the exported checkpoint")
    parser.add_argument("--steps", type=int, default=30000)
    parser.add_argument("--decay-from", type=int, default=20000, help="step at which the learning rate starts to fall")
    parser.add_argument("--warm-up", type=int, default=500)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--series-per-batch", type=int, default=64)
    parser.add_argument("--average", type=float, default=0.998, help="decay of the moving average of the weights")
    parser.add_argument("--robust-share", type=float, default=0.2)
    parser.add_argument("--robust-width", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=500)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    os.makedirs(arguments.work, exist_ok=True)
    model = new_model()
    arguments.patch_size = model.model.patch_embed.patch_size
    average = copy.deepcopy(model.state_dict())
    matrices = [value for value in model.parameters() if value.ndim > 1]
    vectors = [value for value in model.parameters() if value.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [dict(params=matrices, weight_decay=arguments.weight_decay), dict(params=vectors, weight_decay=0.0)],
        lr=arguments.learning_rate, betas=(0.9, 0.98))

    state_path = os.path.join(arguments.work, "state.pt")
    log_path = os.path.join(arguments.work, "log.jsonl")
    step, seconds = 0, 0.0
    if os.path.exists(state_path):
        state = torch.load(state_path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step, seconds = state["average"], state["step"], state["seconds"]

    pool = Pool(arguments.seed)
    held_out = Pool(arguments.seed + 1, chunks=1)
    held_out.advance(0)
    validation = [make_batch(held_out, arguments.seed + 1, number, 64, arguments.patch_size) for number in range(16)]
    judged = new_model()
    values, observed = validation[0]
    difference = agreement(model, values[..., :512], observed[..., :512], torch.randn(values[..., :512].shape))
    assert difference < 1e-2, f"the folded forward pass differs from the package's by {difference}"

    model.train()
    totals, clock = torch.zeros(3), time.time()
    while step < arguments.steps:
        pool.advance(step)
        values, observed = make_batch(pool, arguments.seed, step, arguments.series_per_batch, arguments.patch_size)
        likelihood, robust = losses(model, values, observed, arguments.patch_size, arguments.robust_width)
        loss = (1 - arguments.robust_share) * likelihood + arguments.robust_share * robust
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = learning_rate(step, arguments)
        for group in optimizer.param_groups:
            group["lr"] = rate
        if torch.isfinite(norm):
            optimizer.step()
        step += 1
        with torch.no_grad():
            decay = min(arguments.average, step / (step + 20))
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 1 - decay)
        totals += torch.tensor([likelihood.item(), robust.item(), norm.item()])
        if step % arguments.log_every == 0:
            now = time.time()
            seconds += now - clock
            clock = now
            entry = dict(step=step, likelihood=totals[0].item(), robust=totals[1].item(), gradient=totals[2].item())
            entry = {name: value if name == "step" else round(value / arguments.log_every, 4) for name, value in entry.items()}
            entry.update(rate=round(rate, 7), seconds=round(seconds, 1))
            totals.zero_()
            if step % arguments.save_every == 0:
                judged.load_state_dict(average)
                held = validation_loss(judged, validation, arguments)
                entry.update(held_out_likelihood=round(held[0], 4), held_out_robust=round(held[1], 4))
            with open(log_path, "a") as file:
                file.write(json.dumps(entry) + "\n")
        if step % arguments.save_every == 0 or step == arguments.steps:
            save_checkpoint(average, os.path.join(arguments.work, "checkpoint"))
            save_state(state_path, model=model.state_dict(), optimizer=optimizer.state_dict(), average=average, step=step, seconds=seconds)


if __name__ == "__main__":
    main()
