//! A call of the lab: while it runs, and how it ended.

use std::process::{Child, ExitStatus, Output};

use rl_lab::model::report::Report;

/// How a call of the lab ended.
#[derive(Debug)]
pub struct Done {
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the lab writes UTF-8");
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Done {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}\n{}\n{}", self.status, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "stderr lacks {part:?}:\n{}", self.stderr);
        }
        self
    }

    #[track_caller]
    pub fn prints(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "stdout lacks {part:?}:\n{}", self.stdout);
        }
        self
    }

    /// stdout as the one JSON document it must be.
    #[track_caller]
    pub fn report(&self) -> Report {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e} in:\n{}{}", self.stdout, self.stderr))
    }
}

/// A lab that runs. Ended with the test, however that ends.
pub struct Living {
    child: Option<Child>,
}

impl Living {
    pub fn new(child: Child) -> Self {
        Self { child: Some(child) }
    }

    pub fn signal(&self, signal: i32) {
        let pid = self.child.as_ref().unwrap().id().cast_signed();
        // SAFETY: kill(2) touches no memory; the child is ours and not reaped yet, so is its pid.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    pub fn wait(mut self) -> Done {
        Done::from(self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
