//! Views and texts whose type does not tell the closure behind them.
//!
//! Whatever closure the view macro sees is compiled anew, with all that keeps it up to date: one to
//! two kilobytes each, hundreds of times. Behind a signal or a box they share one type.

use leptos::prelude::*;

/// A view that is built anew whenever something it reads changes.
pub(crate) type Part = Box<dyn Fn() -> AnyView + Send>;

/// See [`Part`].
pub(crate) fn part(build: impl Fn() -> AnyView + Send + 'static) -> Part {
    Box::new(build)
}

/// A value that follows what it reads: one type for each kind of value.
pub(crate) fn derived<T: Send + Sync + 'static>(
    read: impl Fn() -> T + Send + Sync + 'static,
) -> Signal<T> {
    fn boxed<T: Send + Sync + 'static>(read: Box<dyn Fn() -> T + Send + Sync>) -> Signal<T> {
        Signal::derive(read)
    }
    boxed(Box::new(read))
}

/// The same, kept until something it reads changes, and passed on only when it differs.
pub(crate) fn memo<T: PartialEq + Send + Sync + 'static>(
    read: impl Fn() -> T + Send + Sync + 'static,
) -> Memo<T> {
    fn boxed<T: PartialEq + Send + Sync + 'static>(
        read: Box<dyn Fn() -> T + Send + Sync>,
    ) -> Memo<T> {
        Memo::new(move |_| read())
    }
    boxed(Box::new(read))
}

/// Does something now, and again whenever what it reads changes.
pub(crate) fn effect(act: impl FnMut() + 'static) {
    fn boxed(act: Box<dyn FnMut()>) {
        Effect::new(act);
    }
    boxed(Box::new(act));
}

/// A view that is there while a condition holds; built once each time that it begins to hold.
pub(crate) fn when(
    condition: impl Fn() -> bool + Send + Sync + 'static,
    build: impl Fn() -> AnyView + Send + 'static,
) -> Part {
    let holds = memo(condition);
    part(move || if holds.get() { untrack(&build) } else { ().into_any() })
}

/// A text that changes.
pub(crate) fn text(write: impl Fn() -> String + Send + Sync + 'static) -> Signal<String> {
    derived(write)
}

/// A text that is not always there.
pub(crate) fn maybe_text(
    write: impl Fn() -> Option<String> + Send + Sync + 'static,
) -> Signal<Option<String>> {
    derived(write)
}

/// A condition, for `class:` and the like.
pub(crate) fn flag(read: impl Fn() -> bool + Send + Sync + 'static) -> Signal<bool> {
    derived(read)
}

/// `"true"` or `"false"`, as ARIA's states want it.
pub(crate) fn aria(read: impl Fn() -> bool + Send + Sync + 'static) -> Signal<&'static str> {
    derived(move || if read() { "true" } else { "false" })
}

/// `"true"`, or no attribute at all.
pub(crate) fn invalid(
    read: impl Fn() -> bool + Send + Sync + 'static,
) -> Signal<Option<&'static str>> {
    derived(move || read().then_some("true"))
}
