//! Ctrl-C: it cancels the running statement; between statements it ends a script, not the prompt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Listens for Ctrl-C for as long as the program runs.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    running: AtomicBool,
    pressed: Notify,
}

impl Interrupt {
    /// Listens on a thread of its own: neither a statement that keeps every worker busy nor a read
    /// that blocks the shell holds it up.
    pub(super) fn listen(interactive: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let listener = Arc::clone(&shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listen = async move {
            // An error means that there is no such signal here.
            while tokio::signal::ctrl_c().await.is_ok() {
                if listener.running.load(Ordering::Acquire) {
                    listener.pressed.notify_one();
                } else if !interactive {
                    // The program waits for its input, on which nothing can be cancelled.
                    std::process::exit(130);
                }
            }
        };
        std::thread::Builder::new()
            .name("ctrl-c".to_string())
            .spawn(move || runtime.block_on(listen))?;
        Ok(Self(shared))
    }

    /// Runs the future until it ends or Ctrl-C is pressed, which gives None.
    pub(super) async fn guard<F: Future>(&self, future: F) -> Option<F::Output> {
        // A press that came after the last statement's end is not meant for this one.
        let stale = self.0.pressed.notified();
        tokio::pin!(stale);
        let was_pressed = stale.as_mut().enable();
        let _running = Running::new(&self.0.running);
        let pressed = async {
            if was_pressed {
                self.0.pressed.notified().await;
            } else {
                stale.await;
            }
        };
        tokio::select! {
            biased;
            () = pressed => None,
            output = future => Some(output),
        }
    }
}

/// Says that a statement runs, until it is dropped.
struct Running<'a>(&'a AtomicBool);

impl<'a> Running<'a> {
    fn new(running: &'a AtomicBool) -> Self {
        running.store(true, Ordering::Release);
        Self(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_signals() -> Interrupt {
        Interrupt(Arc::new(Shared::default()))
    }

    #[tokio::test]
    async fn a_press_ends_the_running_statement() {
        let interrupt = without_signals();
        assert_eq!(interrupt.guard(async { 1 }).await, Some(1));
        let press = interrupt.clone();
        let never = async {
            press.0.pressed.notify_one();
            futures::future::pending::<()>().await;
        };
        assert_eq!(interrupt.guard(never).await, None);
        assert!(!interrupt.0.running.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn a_late_press_does_not_end_the_next_statement() {
        let interrupt = without_signals();
        interrupt.0.pressed.notify_one();
        assert_eq!(interrupt.guard(tokio::task::yield_now()).await, Some(()));
    }
}
