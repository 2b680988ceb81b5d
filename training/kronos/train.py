"""Trains the tokenizer, then the model on its tokens, both on synthetic candles only.

Each stage runs for a number of seconds or of steps. The learning rate warms up, stays, and falls to zero; what is
written is a moving average of the weights. `--work` receives `tokenizer/`, `model/` and `log.jsonl`, written anew
every half minute, so that an interrupted run can be used.
"""

import argparse
import copy
import json
import os
import random
import time

import torch

import model as model_file
import tokenizer as tokenizer_file
from candles import Pool
from checkpoint import load, save
from recorded import RecordedSteps
from windows import draw_window


def rate_at(progress, step, arguments):
    warm = min(1.0, (step + 1) / arguments.warm_up)
    return arguments.learning_rate * warm * min(1.0, (1 - progress) / (1 - arguments.decay_from))


def optimiser(module, arguments):
    matrices = [value for value in module.parameters() if value.ndim > 1]
    vectors = [value for value in module.parameters() if value.ndim <= 1]
    groups = [dict(params=matrices, weight_decay=arguments.weight_decay), dict(params=vectors, weight_decay=0.0)]
    if arguments.device == "cuda":
        rate = torch.tensor(arguments.learning_rate, device="cuda")
        return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True, capturable=True)
    return torch.optim.AdamW(groups, lr=torch.tensor(arguments.learning_rate), betas=(0.9, 0.98), foreach=False)


def run_stage(name, module, loss_of, seconds, steps, tokens, seed, arguments):
    """Trains `module` in place; at the end its weights are the moving average."""
    pool = Pool(seed, arguments.device, arguments.pool_rows)
    chooser = random.Random(seed)
    optimizer = optimiser(module, arguments)
    parameters = list(module.parameters())
    average = [value.detach().clone() for value in parameters]
    averaged = copy.deepcopy(module)

    def train_on(window):
        optimizer.zero_grad(set_to_none=True)
        loss, numbers = loss_of(module, window)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, arguments.clip, foreach=True)
        for value in parameters:
            if value.grad is not None:
                value.grad.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        return {key: value.detach() for key, value in dict(loss=loss, gradient=norm, **numbers).items()}

    def write():
        for kept, value in zip(averaged.parameters(), average):
            kept.data.copy_(value)
        save(averaged, os.path.join(arguments.work, name))

    take_step = RecordedSteps(train_on, recording=arguments.device == "cuda" and not arguments.eager)
    begun = saved = time.time()
    step, totals, progress = 0, {}, 0.0
    while progress < 1:
        rate = rate_at(progress, step, arguments)
        for group in optimizer.param_groups:
            group["lr"].fill_(rate)
        numbers = take_step(draw_window(pool, chooser, tokens))
        step += 1
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 1 - min(arguments.average, step / (step + 20)))
        for key, value in numbers.items():
            totals[key] = totals.get(key, 0) + value
        now = time.time()
        progress = step / steps if steps else (now - begun) / seconds
        if step % arguments.log_every == 0 or progress >= 1:
            count = step % arguments.log_every or arguments.log_every
            entry = dict(stage=name, step=step, **{key: round(value.item() / count, 4) for key, value in totals.items()},
                         rate=round(rate, 7), seconds=round(time.time() - begun, 1))
            totals = {}
            print(json.dumps(entry), flush=True)
            with open(os.path.join(arguments.work, "log.jsonl"), "a") as file:
                file.write(json.dumps(entry) + "\n")
        if now - saved > 30:
            saved = now
            write()
    write()
    module.load_state_dict(averaged.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for the checkpoints and the log")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--eager", action="store_true", help="launch every kernel of a step anew, without CUDA graphs")
    parser.add_argument("--tokenizer-seconds", type=float, default=190, help="0: take the tokenizer that is there")
    parser.add_argument("--model-seconds", type=float, default=160)
    parser.add_argument("--tokenizer-steps", type=int, default=0, help="a number of steps instead of seconds")
    parser.add_argument("--model-steps", type=int, default=0)
    parser.add_argument("--tokenizer-tokens", type=int, default=24576, help="bars in a batch")
    parser.add_argument("--model-tokens", type=int, default=40960)
    parser.add_argument("--pool-rows", type=int, default=16384)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--warm-up", type=int, default=300)
    parser.add_argument("--decay-from", type=float, default=0.4, help="share of a stage after which the rate falls")
    parser.add_argument("--weight-decay", type=float, default=0.02)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--average", type=float, default=0.999, help="decay of the moving average of the weights")
    parser.add_argument("--log-every", type=int, default=250)
    parser.add_argument("--seed", type=int, default=20261120)
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")

    tokenizer_folder = os.path.join(arguments.work, "tokenizer")
    if arguments.tokenizer_seconds or arguments.tokenizer_steps:
        tokenizer = tokenizer_file.Tokenizer().to(arguments.device)
        run_stage("tokenizer", tokenizer, tokenizer_file.training_loss, arguments.tokenizer_seconds,
                  arguments.tokenizer_steps, arguments.tokenizer_tokens, arguments.seed, arguments)
    else:
        tokenizer = load(tokenizer_file.Tokenizer, tokenizer_folder, arguments.device)

    if arguments.model_seconds or arguments.model_steps:
        torch.manual_seed(arguments.seed + 1)
        model = model_file.Model().to(arguments.device)

        def loss_of(module, window):
            with torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.device == "cuda", cache_enabled=False):
                return model_file.training_loss(module, tokenizer, window)

        run_stage("model", model, loss_of, arguments.model_seconds, arguments.model_steps, arguments.model_tokens,
                  arguments.seed + 1, arguments)


if __name__ == "__main__":
    main()
