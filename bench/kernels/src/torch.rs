//! PyTorch, MKL and oneDNN behind a Python process that computes when it is asked to.

use crate::contestant::{Contestant, Result};
use crate::problem::{Problem, Rounding};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// The process: one question and one answer a line.
pub struct Python {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A product that PyTorch offers, by the name `torch_products.py` knows it by.
pub struct Torch {
    problem: Problem,
    name: String,
    dtype: &'static str,
    python: Rc<RefCell<Python>>,
}

impl Python {
    /// Starts the interpreter with as many threads as everybody else has.
    pub fn start(interpreter: &Path, threads: usize) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/torch_products.py");
        let mut command = Command::new(interpreter);
        command.arg(script).arg(threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", interpreter.display()))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the interpreter has no pipes".into());
        };
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// The versions of what is behind it.
    pub fn versions(&mut self) -> Result<Value> {
        self.ask(&json!({ "question": "versions" }))
    }

    /// Makes the weights of a problem and returns whom it has for it: name and dtype.
    pub fn prepare(this: &Rc<RefCell<Self>>, problem: Problem, copies: usize) -> Result<Vec<Torch>> {
        let question = json!({ "question": "prepare", "problem": problem, "copies": copies });
        let offered: Vec<(String, String)> = this.borrow_mut().ask(&question)?;
        let dtype = |dtype: &str| if dtype == "bf16" { "bf16" } else { "f32" };
        let torch = |(name, of): (String, String)| Torch { problem, name, dtype: dtype(&of), python: Rc::clone(this) };
        Ok(offered.into_iter().map(torch).collect())
    }

    fn ask<T: DeserializeOwned>(&mut self, question: &Value) -> Result<T> {
        writeln!(self.questions, "{question}")?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            return Err("the Python process ended; its message stands above".into());
        }
        Ok(serde_json::from_str(&answer)?)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It ends by itself with its input; what it says then interests nobody.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Contestant for Torch {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn dtype(&self) -> &'static str {
        self.dtype
    }

    fn largest_error(&mut self) -> Result<f64> {
        let checked: Vec<usize> = self.problem.checked_rows().collect();
        let question = json!({ "question": "rows", "name": self.name, "dtype": self.dtype, "rows": checked });
        let results: Vec<Vec<f32>> = self.python.borrow_mut().ask(&question)?;
        let rounding = if self.dtype == "bf16" { Rounding::OperandsAndResult } else { Rounding::None };
        let mut results = results.into_iter();
        Ok(self.problem.largest_error(rounding, |_| results.next().unwrap_or_default()))
    }

    fn time(&mut self, calls: usize) -> Result<Duration> {
        let question = json!({ "question": "time", "name": self.name, "dtype": self.dtype, "calls": calls });
        Ok(Duration::from_secs_f64(self.python.borrow_mut().ask(&question)?))
    }
}
