// SPDX-License-Identifier: Apache-2.0
//! A guard around an engine and its world: after a panic in them nobody calls them again, and the program around them
//! continues.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A value that is called until a call panics.
#[derive(Debug)]
pub struct Guarded<T> {
    value: Option<T>,
    failure: Option<String>,
}

impl<T> Guarded<T> {
    /// Guards `value`; without one, every call returns `None`.
    pub fn new(value: Option<T>) -> Self {
        Self { value, failure: None }
    }

    /// Whether the value can be called.
    pub fn is_running(&self) -> bool {
        self.value.is_some() && self.failure.is_none()
    }

    /// Why it is no longer called: the message of the panic that ended it, or what [`Guarded::fail`] was given.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Calls the value. `None` if the call panics, and after that.
    pub fn call<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.is_running() {
            return None;
        }
        let value = self.value.as_mut()?;
        // After a panic the value may be inconsistent: it is only taken, to be shut down.
        let result = catch_unwind(AssertUnwindSafe(|| work(value)));
        result.map_err(|panic| self.failure = Some(message(panic.as_ref()))).ok()
    }

    /// Ends it as a panic with this message would. The first failure counts.
    pub fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }

    /// Takes the value out and shuts it down, also after a panic. `None` if that panics, too.
    pub fn finish<R>(&mut self, work: impl FnOnce(T) -> R) -> Option<R> {
        let value = self.value.take()?;
        let result = catch_unwind(AssertUnwindSafe(|| work(value)));
        result.map_err(|panic| _ = self.failure.get_or_insert(message(panic.as_ref()))).ok()
    }
}

/// The message of a panic.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_panic_the_value_is_only_finished() {
        let mut guarded = Guarded::new(Some(vec![1]));
        assert_eq!(guarded.call(|list| list.len()), Some(1));
        assert_eq!(guarded.call(|list| list[7]), None);
        assert!(guarded.failure().is_some_and(|why| why.contains('7')), "{:?}", guarded.failure());
        assert!(!guarded.is_running());
        assert_eq!(guarded.call(|list| list.len()), None, "no call after a panic");
        assert_eq!(guarded.finish(|list| list.len()), Some(1));
        assert_eq!(guarded.finish(|list| list.len()), None, "finished once");
    }

    #[test]
    fn after_a_failure_the_value_is_only_finished() {
        let mut guarded = Guarded::new(Some(vec![1]));
        guarded.fail("its socket is gone".into());
        guarded.fail("later".into());
        assert_eq!((guarded.call(|list| list.len()), guarded.is_running()), (None, false));
        assert_eq!(guarded.failure(), Some("its socket is gone"));
        assert_eq!(guarded.finish(|list| list.len()), Some(1));
    }

    #[test]
    fn a_panic_while_finishing_is_a_failure() {
        let mut guarded = Guarded::new(Some(1_u8));
        assert_eq!(guarded.finish(|_| -> u8 { panic!("full {}", "disk") }), None);
        assert_eq!(guarded.failure(), Some("full disk"));
        assert_eq!(Guarded::<u8>::new(None).call(|value| *value), None);
    }
}
