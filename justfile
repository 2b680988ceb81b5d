# One word each. `just --list` shows them.

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets -- -D warnings

test:
    cargo test --workspace

# The kernels' races, without a GPU: see docs/kernels.md.
races:
    NOWCAST_RACES=1 cargo test -p nowcast-engine --test 'cuda*' --test reused_plan

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench:
    cargo run --release -p nowcast-cli -- bench

verify:
    cargo run --release -p nowcast-cli -- verify --goldens goldens

# Side by side with the public PyTorch package; see bench/README.md.
compare checkpoint csv column:
    python3 bench/compare.py --checkpoint {{checkpoint}} --csv {{csv}} --column {{column}}
