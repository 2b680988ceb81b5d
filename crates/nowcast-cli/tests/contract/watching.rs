//! What is told about a run, and what Ctrl-C leaves.

use crate::answer::{succeed, vix};
use crate::program::{Call, model};

#[test]
fn every_command_tells_its_time_and_memory() {
    for line in [&["inspect", "nano"][..], &["bench", "--model", &model(), "--context", "64", "--runs", "1"]] {
        let run = succeed(Call::new(&[line, &["--stats"]].concat()));
        let last = run.stderr.lines().last().expect("a line").to_string();
        assert!(last.starts_with("stats: ") && last.contains(" s"), "{last}");
        assert!(succeed(Call::new(line)).stderr.is_empty(), "nobody asked");
    }
}

#[test]
fn what_can_be_told_is_a_list_of_names() {
    let line = ["forecast", &vix(), "--horizon", "2", "--log", "plans,graphs,memory"];
    succeed(Call::new(&line));
    let wrong = Call::new(&line[..4]).variable("NOWCAST_LOG", "everything").run();
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.starts_with("error: NOWCAST_LOG: invalid value 'everything'"), "{}", wrong.stderr);
}

/// Waits until the program listens to Ctrl-C, presses it, and tells what the program says.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_says_what_is_done_and_leaves_nothing_half_written() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    const INTERRUPT: u64 = 1 << 1;
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_nowcast"));
    program.args(["bench", "--model", "nano", "--runs", "1000000", "--no-config"]);
    let child = program.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let listens = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a line of signals");
        u64::from_str_radix(caught.trim(), 16).unwrap() & INTERRUPT != 0
    };
    let patience = Instant::now() + Duration::from_secs(120);
    while !listens() {
        assert!(Instant::now() < patience, "the program never listened");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.starts_with("note: interrupted") && said.ends_with("no file was written\n"), "{said}");
    assert!(output.stdout.is_empty() && fs::read_dir(folder.path()).unwrap().next().is_none());
}
