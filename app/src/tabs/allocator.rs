//! From requested to reserved to what the driver shows, for both steps.

use leptos::prelude::*;
use simulator::wire::report::StepKind;
use simulator::wire::timeline::Category;

use crate::erased::{derived, part};
use crate::format;
use crate::state::{Answers, Settings};
use crate::view_model::allocator::{Line, Value, lines};

/// The tab.
#[component]
pub(super) fn AllocatorTab() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let rows = part(move || {
        let unit = settings.unit();
        let words = settings.words();
        let text = move |value: Value| match value {
            Value::Bytes(bytes) => format::size(bytes, unit),
            Value::Count(count) => format::count(count),
            Value::Nothing => String::new(),
        };
        let exact = |value: Value| match value {
            Value::Bytes(bytes) => Some(format::exact(bytes)),
            _ => None,
        };
        let row = move |line: Line| {
            let cell = move |value| {
                view! { <td class="num" title=exact(value)>{text(value)}</td> }.into_any()
            };
            view! {
                <tr class:total=line.is_total>
                    <th scope="row">{(line.name)(&words.tables)}</th>
                    {line.values.map(cell).into_iter().collect::<Vec<AnyView>>()}
                    <td class="note">{(line.help)(&words.tables)}</td>
                </tr>
            }
            .into_any()
        };
        let rows = answers.with(|answer| {
            let outside = [StepKind::First, StepKind::Steady]
                .map(|step| answer.report.step(step).category(Category::OutsidePool).get());
            lines(&answer.report, outside).into_iter().map(row).collect::<Vec<AnyView>>()
        });
        rows.into_any()
    });
    let step = move |step| derived(move || (settings.words().step)(step));
    view! {
        <div class="block">
            <table class="plain">
                <thead><tr>
                    <th scope="col">{settings.word(|w| w.tables.peak)}</th>
                    <th scope="col" class="num">{step(StepKind::First)}</th>
                    <th scope="col" class="num">{step(StepKind::Steady)}</th>
                    <th scope="col">{settings.word(|w| w.tables.meaning)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}
