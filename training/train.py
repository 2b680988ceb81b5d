"""Trains `nano` on synthetic series. Resumable: run the same command again after an interruption.

The learning rate warms up, stays level, falls to zero, and makes a second, lower ramp.
A moving average of the weights is what gets exported. Every worker is a process with one thread that draws batches
of its own; the workers average their gradients in every step. Workers of one thread wait for each other once per
step, threads of one process after every operation, which costs dearly where other programs want the same cores.
"""

import argparse
import copy
import json
import os
import time

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing

from batches import Pool, make_batch
from folded_head import agreement, forward, log_probability, mixture
from model_files import new_model, save_checkpoint


def learning_rate(step, arguments):
    """Warm-up, level, linear decay to zero at `first_end`; then a second, lower ramp up and down until the end."""
    if step < arguments.first_end:
        warm = min(1.0, (step + 1) / arguments.warm_up)
        left = (arguments.first_end - step) / (arguments.first_end - arguments.decay_from)
        return arguments.learning_rate * warm * min(1.0, left)
    warm = min(1.0, (step - arguments.first_end + 1) / arguments.warm_up)
    left = (arguments.steps - step) / max(1, arguments.steps - arguments.first_end - arguments.warm_up)
    return arguments.second_rate * warm * min(1.0, max(left, 0.0))


def losses(model, values, observed, robust_width):
    """Negative log likelihood and the package's robust loss of the mean, both of the next patch in scaled units."""
    patch_size = model.model.patch_embed.patch_size
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
def held_out_losses(model, batches, arguments):
    values = torch.tensor([losses(model, *batch, arguments.robust_width) for batch in batches])
    return values.mean(0).tolist()


def average_gradients(model, workers):
    if workers == 1:
        return
    gradients = [value.grad for value in model.parameters()]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= workers
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def make_optimizer(model, arguments):
    matrices = [value for value in model.parameters() if value.ndim > 1]
    vectors = [value for value in model.parameters() if value.ndim <= 1]
    groups = [dict(params=matrices, weight_decay=arguments.weight_decay), dict(params=vectors, weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=(0.9, 0.98), foreach=True)


def save_state(path, **state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def drop_log_after(path, step):
    """Forgets log lines of steps that an interruption lost: they will be made again."""
    if os.path.exists(path):
        with open(path) as file:
            lines = [line for line in file if json.loads(line)["step"] <= step]
        with open(path, "w") as file:
            file.writelines(lines)


def work(rank, arguments):
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    if arguments.workers > 1:
        meeting = "file://" + os.path.abspath(os.path.join(arguments.work, "meeting"))
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=arguments.workers)
    model = new_model()
    patch_size = model.model.patch_embed.patch_size
    average = copy.deepcopy(model.state_dict())
    optimizer = make_optimizer(model, arguments)

    state_path = os.path.join(arguments.work, "state.pt")
    step, seconds = 0, 0.0
    if os.path.exists(state_path):
        state = torch.load(state_path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step, seconds = state["average"], state["step"], state["seconds"]

    log_path = os.path.join(arguments.work, "log.jsonl")
    if rank == 0:
        drop_log_after(log_path, step)

    seed = arguments.seed + 1000 * rank
    pool = Pool(seed, rows=arguments.rows_per_chunk // arguments.workers)
    held_out = Pool(arguments.seed + 1, chunks=1)
    held_out.advance(0)
    validation = [make_batch(held_out, arguments.seed + 1, number, 64, patch_size) for number in range(12)]
    judged = new_model()
    values, observed = validation[0]
    difference = agreement(model, values[..., :512], observed[..., :512], torch.randn(values[..., :512].shape))
    assert difference < 1e-2, f"the folded forward pass differs from the package's by {difference}"

    totals, clock = torch.zeros(3), time.time()
    while step < arguments.steps:
        pool.advance(step)
        values, observed = make_batch(pool, seed, step, arguments.series_per_batch // arguments.workers, patch_size)
        likelihood, robust = losses(model, values, observed, arguments.robust_width)
        loss = (1 - arguments.robust_share) * likelihood + arguments.robust_share * robust
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, arguments.workers)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip if step < arguments.loosen_from else arguments.loose_clip)
        rate = learning_rate(step, arguments)
        for group in optimizer.param_groups:
            group["lr"] = rate
        if torch.isfinite(norm):
            optimizer.step()
        step += 1
        if rank != 0:
            continue
        with torch.no_grad():
            decay = min(arguments.average, step / (step + 20))
            torch._foreach_lerp_(list(average.values()), list(model.state_dict().values()), 1 - decay)
        totals += torch.tensor([likelihood.item(), robust.item(), norm.item()])
        if step % arguments.log_every == 0:
            seconds, clock = seconds + time.time() - clock, time.time()
            means = (totals / arguments.log_every).tolist()
            totals.zero_()
            entry = dict(step=step, likelihood=round(means[0], 4), robust=round(means[1], 4), gradient=round(means[2], 3),
                         rate=round(rate, 7), seconds=round(seconds, 1))
            if step % arguments.judge_every == 0:
                judged.load_state_dict(average)
                held = held_out_losses(judged, validation, arguments)
                entry.update(held_out_likelihood=round(held[0], 4), held_out_robust=round(held[1], 4))
            with open(log_path, "a") as file:
                file.write(json.dumps(entry) + "\n")
        if step % arguments.save_every == 0 or step == arguments.steps:
            save_checkpoint(average, os.path.join(arguments.work, "checkpoint"))
            save_state(state_path, model=model.state_dict(), optimizer=optimizer.state_dict(), average=average,
                       step=step, seconds=seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for the resume state, the log and the exported checkpoint")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12500)
    parser.add_argument("--first-end", type=int, default=9000, help="step at which the first decay has reached zero")
    parser.add_argument("--decay-from", type=int, default=5250, help="step at which the learning rate starts to fall")
    parser.add_argument("--warm-up", type=int, default=500)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--second-rate", type=float, default=7e-4, help="peak of the second ramp")
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of the gradient")
    parser.add_argument("--loose-clip", type=float, default=5.0, help="the same from step --loosen-from on")
    parser.add_argument("--loosen-from", type=int, default=6000)
    parser.add_argument("--series-per-batch", type=int, default=64, help="of all workers together")
    parser.add_argument("--rows-per-chunk", type=int, default=2500, help="of all workers together")
    parser.add_argument("--average", type=float, default=0.998, help="decay of the moving average of the weights")
    parser.add_argument("--robust-share", type=float, default=0.2)
    parser.add_argument("--robust-width", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--judge-every", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=250)
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    meeting = os.path.join(arguments.work, "meeting")
    if os.path.exists(meeting):
        os.remove(meeting)
    if arguments.workers == 1:
        work(0, arguments)
    else:
        multiprocessing.spawn(work, args=(arguments,), nprocs=arguments.workers)


if __name__ == "__main__":
    main()
