//! The kernels as a library for this processor.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::cuda::kernel::{HEADERS, Source};

macro_rules! shim {
    ($($name:literal),* $(,)?) => {
        &[$(Source { name: concat!("shim/", $name), text: include_str!(concat!("../kernels/shim/", $name)) }),*]
    };
}

const SHIM: &[Source] =
    shim!["shim.h", "races.h", "warp.h", "tensor_cores.h", "shim.cpp", "pipeline.cpp", "tensor_cores.cpp"];
/// What finds races.
const DETECTOR: &[Source] = shim!["clocks.h", "shadow.h", "races.cpp", "clocks.cpp", "shadow.cpp"];

/// Builds files of kernels, or finds the library from an earlier run; with `finds_races`, all that kernels do to memory is
/// looked at.
pub(super) fn library(kernels: &[Source], finds_races: bool) -> Result<PathBuf, String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let portable = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-Wno-unknown-pragmas", "-DNOWCAST_SHIM"];
    let mut flags: Vec<&str> = portable.into_iter().chain(detected_features().iter().copied()).collect();
    let mut shim: Vec<&Source> = SHIM.iter().collect();
    if finds_races {
        flags.extend(["-DNOWCAST_RACES", "-g1"]);
        shim.extend(DETECTOR);
    }
    let instrumented: &[&str] = if finds_races { &["-fsanitize=thread"] } else { &[] };
    let sources = Sources { kernels, shim, flags, instrumented };
    let name = sources.digest();
    let folder = std::env::temp_dir();
    let path = folder.join(format!("nowcast-emulator-{name}.so"));
    if path.is_file() {
        return Ok(path);
    }
    let folder = folder.join(format!("nowcast-emulator-{name}-{}", std::process::id()));
    let built = sources.build(&compiler, &folder, &path);
    let _ = fs::remove_dir_all(&folder);
    built.map(|()| path)
}

/// What makes a fused multiply-add one instruction instead of a call.
fn detected_features() -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        return &["-mavx2", "-mfma", "-mf16c"];
    }
    &[]
}

struct Sources<'a> {
    kernels: &'a [Source],
    shim: Vec<&'a Source>,
    flags: Vec<&'a str>,
    /// Flags of kernels alone.
    instrumented: &'a [&'a str],
}

impl Sources<'_> {
    fn all(&self) -> impl Iterator<Item = &Source> {
        HEADERS.iter().chain(self.kernels).chain(self.shim.iter().copied())
    }

    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        self.all().for_each(|source| digest.update(source.text));
        self.flags.iter().for_each(|flag| digest.update(flag));
        digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }

    fn build(&self, compiler: &str, folder: &Path, path: &Path) -> Result<(), String> {
        let text = |error: std::io::Error| format!("cannot build the kernels with {compiler}: {error}");
        fs::create_dir_all(folder.join("shim")).map_err(text)?;
        for source in self.all() {
            fs::write(folder.join(source.name), source.text).map_err(text)?;
        }
        let run = |command: &mut Command| -> Result<(), String> {
            let output = command.output().map_err(text)?;
            // Tests are skipped where there is no compiler, never where kernels do not compile.
            assert!(
                output.status.success(),
                "{compiler} fails on the kernels: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            Ok(())
        };
        let object = |source: &Source| folder.join(format!("{}.o", source.name.replace('/', "_")));
        let compile = |source: &Source, flags: &[&str]| {
            let mut command = Command::new(compiler);
            command.args(&self.flags).args(flags).arg("-I").arg(folder).args(["-x", "c++", "-c"]);
            run(command.arg(folder.join(source.name)).arg("-o").arg(object(source)))
        };
        let shim: Vec<&Source> = self.shim.iter().copied().filter(|source| !source.name.ends_with(".h")).collect();
        std::thread::scope(|scope| {
            let kernels = self.kernels.iter().map(|source| (source, self.instrumented));
            let units = kernels.chain(shim.iter().map(|&source| (source, &[][..])));
            let compile = &compile;
            let tasks: Vec<_> = units.map(|(source, flags)| scope.spawn(move || compile(source, flags))).collect();
            tasks.into_iter().try_for_each(|task| task.join().expect("a compiler's thread does not panic"))
        })?;
        let finished = folder.join("library.so");
        let objects = self.kernels.iter().chain(shim.iter().copied()).map(object);
        run(Command::new(compiler).arg("-shared").arg("-o").arg(&finished).args(objects))?;
        fs::rename(&finished, path).map_err(text)
    }
}
