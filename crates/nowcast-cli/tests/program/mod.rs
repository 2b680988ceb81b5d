//! The real program, as a user's shell runs it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;

/// Longer than any test needs on a loaded machine; a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(180);

/// How the variables of a user's environment begin that change what the program does.
const VARIABLES: [&str; 4] = ["NOWCAST_", "TOTO_", "HF_", "CUDA_LAUNCH_"];

/// What a run left.
pub(crate) struct Run {
    /// Exit status; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A small random checkpoint with patches of 16.
pub(crate) fn model() -> String {
    golden("toto-univariate").display().to_string()
}

/// A small random Kronos checkpoint with a window of 512 candles.
pub(crate) fn kronos() -> String {
    golden("kronos-predict").display().to_string()
}

pub(crate) fn golden(name: &str) -> PathBuf {
    repository("goldens").join(name)
}

/// A path from the root of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("crates/nowcast-cli has two parents").join(path)
}

/// A run of `nowcast`, not started yet; it never reaches the network.
pub(crate) struct Call(Command);

impl Call {
    pub(crate) fn new<T: AsRef<str>>(arguments: &[T]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nowcast"));
        command.args(arguments.iter().map(AsRef::as_ref)).timeout(PATIENCE);
        for (name, _) in std::env::vars_os() {
            // What chooses the kernels is for whoever runs the tests.
            let known = name.to_str().is_some_and(|name| VARIABLES.iter().any(|start| name.starts_with(start)));
            if known && name != "NOWCAST_CPU" {
                command.env_remove(&name);
            }
        }
        let nowhere = std::env::temp_dir().join("no-such-home");
        command.env("HF_HUB_OFFLINE", "1").env("HF_HOME", &nowhere).env("XDG_CONFIG_HOME", &nowhere);
        Self(command)
    }

    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.write_stdin(bytes);
        self
    }

    pub(crate) fn run(mut self) -> Run {
        let output = self.0.output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes text");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}
