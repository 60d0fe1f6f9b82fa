// SPDX-License-Identifier: Apache-2.0
//! Signals as a file descriptor, to be polled with others.

use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// Signals that request an end, and those that would end us at once, with the machine's settings changed. With `run`
/// they are passed on to the command, otherwise they end tierline.
const ENDING: [Signal; 13] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
    Signal::POWER,
    Signal::STKFLT,
    Signal::XCPU,
];
/// Signals without a name would end us as well. They cannot be passed on as what they are.
const REAL_TIME: RangeInclusive<i32> = 34..=64;
/// A file that grows beyond its limit (`ulimit -f`): the write fails, which is reported where it is made.
const IGNORED: [Signal; 1] = [Signal::XFSZ];

/// Signals that arrived and are not yet handled.
pub struct Signals(SignalDelivery<UnixStream, WithOrigin>);

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// A child exited, stopped or continued.
    Child,
    /// A request to end.
    End {
        /// The signal.
        signal: Signal,
        /// True if the kernel sent it, as for Ctrl-C: then the whole process group of the terminal got it,
        /// including our child. Passing it on would deliver it twice, and a second Ctrl-C makes Redis exit
        /// without saving.
        to_group: bool,
    },
}

impl Signals {
    /// Starts to listen. Signals that were ignored when we were started stay ignored (`nohup`, `&` in a script),
    /// so that a program we start ignores them too.
    pub fn listen() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        let ignored = ignored_mask();
        let wanted = ENDING.into_iter().map(Signal::as_raw).chain(REAL_TIME);
        let wanted = wanted.filter(|n| ignored & (1 << (n - 1)) == 0);
        // A handler, as a program that we start would inherit an ignored signal.
        let wanted = wanted.chain(IGNORED.map(Signal::as_raw)).chain([Signal::CHILD.as_raw()]);
        SignalDelivery::with_pipe(read, write, WithOrigin::default(), wanted).map(Self)
    }

    /// Readable when a signal has arrived.
    pub fn fd(&self) -> &UnixStream {
        self.0.get_read()
    }

    /// The signals since the last call.
    pub fn take(&mut self) -> impl Iterator<Item = SignalEvent> + use<> {
        self.0.pending().filter_map(|origin| heard(&origin))
    }
}

fn heard(origin: &Origin) -> Option<SignalEvent> {
    let signal = Signal::from_named_raw(origin.signal).unwrap_or(Signal::TERM);
    match signal {
        Signal::CHILD => Some(SignalEvent::Child),
        _ if IGNORED.contains(&signal) => None,
        _ => Some(SignalEvent::End { signal, to_group: origin.cause == Cause::Kernel }),
    }
}

/// The signals that this process ignores, bit n-1 for signal n.
fn ignored_mask() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
