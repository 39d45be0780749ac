//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! Ctrl-C cancels what runs: a statement at the prompt, the program elsewhere. The other two end
//! the program everywhere. The program leaves by dropping what it has begun, so that no temporary
//! file stays; a second signal meanwhile ends it at once.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use simjoin_files::storage::ProcessDir;
use simjoin_session::errors::Signal;

/// Listens for signals for as long as the program runs.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// There is a prompt, which Ctrl-C does not end.
    interactive: bool,
    state: Mutex<PendingSignal>,
    came: Notify,
}

#[derive(Debug, Default)]
struct PendingSignal {
    /// The gravest signal without an answer yet.
    pending: Option<Signal>,
    /// A signal was answered by leaving.
    leaving: bool,
}

impl Interrupt {
    /// Listens on a thread of its own: neither a statement that keeps every worker busy nor a read
    /// that blocks the shell holds it up.
    ///
    /// The signals are taken over before this returns. The line editor saves and restores their
    /// handlers while it reads, and must find these.
    pub(super) fn listen(interactive: bool) -> io::Result<Self> {
        let interrupt = Self::new(interactive);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _entered = runtime.enter();
            Signals::take_over()?
        };
        let listener = interrupt.clone();
        let listen = move || {
            runtime.block_on(signals.listen(|signal| {
                if listener.send(signal) {
                    ProcessDir::remove_all();
                    std::process::exit(signal.status().into());
                }
            }));
        };
        std::thread::Builder::new().name("signals".to_string()).spawn(listen)?;
        Ok(interrupt)
    }

    fn new(interactive: bool) -> Self {
        Self(Arc::new(Shared { interactive, state: Mutex::default(), came: Notify::new() }))
    }

    /// Takes a signal; true when the program is to end at once.
    fn send(&self, signal: Signal) -> bool {
        let mut state = self.0.state.lock();
        if state.leaving || !self.0.interactive && state.pending.is_some() {
            return true;
        }
        state.pending = state.pending.max(Some(signal));
        self.0.came.notify_one();
        false
    }

    /// Runs the future until it ends or a signal comes, which is the error.
    pub(super) async fn guard<F: Future>(&self, future: F) -> Result<F::Output, Signal> {
        self.guard_from(Signal::Interrupt, future).await
    }

    /// As [`Self::guard`], but leaves a Ctrl-C to what follows.
    pub(super) async fn guard_but_ctrl_c<F: Future>(&self, future: F) -> Result<F::Output, Signal> {
        self.guard_from(Signal::HangUp, future).await
    }

    async fn guard_from<F: Future>(&self, least: Signal, future: F) -> Result<F::Output, Signal> {
        let signal = async {
            loop {
                let came = self.0.came.notified();
                if let Some(signal) = self.answer(least) {
                    return signal;
                }
                came.await;
            }
        };
        tokio::select! {
            biased;
            signal = signal => Err(signal),
            output = future => Ok(output),
        }
    }

    /// Takes the pending signal if it is at least as grave as `least`.
    fn answer(&self, least: Signal) -> Option<Signal> {
        let mut state = self.0.state.lock();
        let signal = state.pending.take_if(|signal| *signal >= least)?;
        state.leaving |= !self.0.interactive || signal != Signal::Interrupt;
        Some(signal)
    }

    /// Forgets a Ctrl-C that came while nothing ran.
    pub(super) fn forget_ctrl_c(&self) {
        self.0.state.lock().pending.take_if(|signal| *signal == Signal::Interrupt);
    }
}

#[cfg(unix)]
mod unix {
    use std::future::poll_fn;
    use std::mem::MaybeUninit;
    use std::task::Poll;

    use tokio::signal::unix::{SignalKind, signal};

    use super::{Signal, io};

    /// The streams of the signals taken over.
    pub(super) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

    impl Signals {
        /// A signal that the parent has switched off, as `nohup` does, stays off.
        pub(super) fn take_over() -> io::Result<Self> {
            let mut streams = vec![];
            for (name, kind) in [
                (Signal::Interrupt, SignalKind::interrupt()),
                (Signal::HangUp, SignalKind::hangup()),
                (Signal::Terminate, SignalKind::terminate()),
            ] {
                if !is_ignored(kind) {
                    streams.push((name, signal(kind)?));
                }
            }
            Ok(Self(streams))
        }

        pub(super) async fn listen(mut self, mut came: impl FnMut(Signal)) {
            loop {
                let next = poll_fn(|context| {
                    let mut streams = self.0.iter_mut();
                    let came = streams.find_map(|(name, stream)| {
                        stream.poll_recv(context).is_ready().then_some(*name)
                    });
                    came.map_or(Poll::Pending, Poll::Ready)
                });
                came(next.await);
            }
        }
    }

    fn is_ignored(kind: SignalKind) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action the call only fills in the old one, for which there is room;
        // zeroes are a valid value of it.
        let action = unsafe {
            libc::sigaction(kind.as_raw_value(), std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(unix)]
use unix::Signals;

/// Where there is only Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn take_over() -> io::Result<Self> {
        Ok(Self)
    }

    async fn listen(self, mut came: impl FnMut(Signal)) {
        while tokio::signal::ctrl_c().await.is_ok() {
            came(Signal::Interrupt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_ends_what_is_waited_for() {
        let interrupt = Interrupt::new(true);
        assert_eq!(interrupt.guard(async { 1 }).await, Ok(1));
        let sender = interrupt.clone();
        let never = async {
            assert!(!sender.send(Signal::Interrupt));
            futures::future::pending::<()>().await;
        };
        assert_eq!(interrupt.guard(never).await, Err(Signal::Interrupt));
        assert_eq!(interrupt.guard(async { 2 }).await, Ok(2));
    }

    /// A Ctrl-C between two statements of a script ends the script.
    #[tokio::test]
    async fn a_signal_between_statements_is_kept() {
        let interrupt = Interrupt::new(false);
        interrupt.send(Signal::Interrupt);
        assert_eq!(interrupt.guard(async {}).await, Err(Signal::Interrupt));
        assert!(interrupt.send(Signal::Interrupt), "the second one ends the program at once");
    }

    #[tokio::test]
    async fn a_ctrl_c_waits_for_what_it_may_cancel() {
        let interrupt = Interrupt::new(true);
        interrupt.send(Signal::Interrupt);
        assert_eq!(interrupt.guard_but_ctrl_c(async {}).await, Ok(()));
        assert_eq!(interrupt.guard(async {}).await, Err(Signal::Interrupt));
        interrupt.send(Signal::Interrupt);
        interrupt.forget_ctrl_c();
        assert_eq!(interrupt.guard(async {}).await, Ok(()));
    }

    #[tokio::test]
    async fn the_gravest_signal_counts() {
        let interrupt = Interrupt::new(true);
        interrupt.send(Signal::Terminate);
        interrupt.send(Signal::Interrupt);
        assert_eq!(interrupt.guard(async {}).await, Err(Signal::Terminate));
        assert!(interrupt.send(Signal::Interrupt));
    }

    #[tokio::test]
    async fn ctrl_c_at_the_prompt_never_ends_the_program() {
        let interrupt = Interrupt::new(true);
        for _ in 0..3 {
            assert!(!interrupt.send(Signal::Interrupt));
            assert_eq!(interrupt.guard(async {}).await, Err(Signal::Interrupt));
        }
    }
}
