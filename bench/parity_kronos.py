"""Greedy forecasts of a full-size Kronos checkpoint beside the public code, field by field.

Usage: python3 bench/parity_kronos.py --source CHECKOUT --model FOLDER [--csv examples/kline_5min.csv]
           [--context 400] [--horizon 24] [--max-context 512] [--nowcast PROGRAM]

CHECKOUT is https://github.com/shiyu-coder/Kronos; FOLDER holds model/ and tokenizer/. Both take the most probable token
(top_k 1). Differences are printed in units of each field's deviation over the context; where two tokens are nearly
equally probable, f32 rounding may choose either, and everything after that differs.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pandas
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--csv", default="examples/kline_5min.csv")
    parser.add_argument("--context", type=int, default=400)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--max-context", type=int, default=512)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    options = parser.parse_args()

    command = [options.nowcast, "forecast", options.csv, "--model", options.model, "--top-k", "1", "--samples", "1"]
    command += ["--context", str(options.context), "--horizon", str(options.horizon), "--output", "json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ours = {series["name"].split("/")[-1]: series for series in answer["series"]}

    sys.path.insert(0, options.source)
    from model.kronos import Kronos, KronosPredictor, KronosTokenizer
    from safetensors.torch import load_file

    def load(kind, half):
        folder = Path(options.model) / half
        model = kind(**json.loads((folder / "config.json").read_text()))
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model.eval()

    predictor = KronosPredictor(
        load(Kronos, "model"), load(KronosTokenizer, "tokenizer"), device="cpu", max_context=options.max_context
    )
    frame = pandas.read_csv(options.csv).tail(options.context).reset_index(drop=True)
    frame.columns = [column.lower() for column in frame.columns]
    times = next(column for column in frame.columns if column in ("timestamps", "timestamp", "date", "time"))
    fields = [field for field in ("open", "high", "low", "close", "volume", "amount") if field in frame.columns]
    future = pandas.Series(pandas.to_datetime(ours["close"]["timestamps"]))
    torch.manual_seed(0)
    theirs = predictor.predict(
        frame[fields], pandas.to_datetime(frame[times]), future, options.horizon, T=1.0, top_k=1, top_p=1.0,
        sample_count=1, verbose=False,
    )
    for field in theirs.columns:
        scale = frame[field].std(ddof=0) if field in frame.columns else 1.0
        difference = abs(theirs[field].to_numpy() - ours[field]["mean"]).max()
        print(f"{field:7} largest difference {difference / (scale + 1e-5):.2e} of its deviation")


if __name__ == "__main__":
    main()
