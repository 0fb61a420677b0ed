//! Every figure with its formula, the values put in, and where the rule comes from.

use leptos::prelude::*;
use simulator::wire::report::Figure;

use crate::erased::{part, text, when};
use crate::format::{self, Unit};
use crate::state::{Answers, Settings};

/// The tab.
#[component]
pub(super) fn WhyTab() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let filter = RwSignal::new(String::new());
    let rows = part(move || {
        let unit = settings.unit();
        let name = settings.words().figure;
        let wanted = filter.get().to_lowercase();
        let rows = answers.with(|answer| {
            let figures = answer.report.figures.iter().filter(|figure| {
                let title = name(&figure.id).unwrap_or_default();
                let all = format!("{title} {} {} {}", figure.id, figure.formula, figure.source);
                all.to_lowercase().contains(&wanted)
            });
            figures
                .map(|figure| {
                    let title = name(&figure.id).map_or_else(|| figure.id.clone(), str::to_owned);
                    let (formula, source) = (figure.formula.clone(), figure.source.clone());
                    view! {
                        <tr id=format!("why-{}", figure.id)>
                            <th scope="row">{title}</th>
                            <td class="num">{value(figure, unit)}</td>
                            <td class="formula">
                                <code>{formula}</code>
                                <code class="substituted">{figure.substituted.clone()}</code>
                            </td>
                            <td class="note">{source}</td>
                        </tr>
                    }
                    .into_any()
                })
                .collect::<Vec<AnyView>>()
        });
        rows.into_any()
    });
    let is_empty = move || answers.with(|answer| answer.report.figures.is_empty()).unwrap_or(true);
    let empty =
        move || view! { <p class="empty">{settings.word(|w| w.tables.no_figures)}</p> }.into_any();
    view! {
        <div class="block">
            <p class="caption">
                <input
                    type="search"
                    class="filter"
                    placeholder=settings.word(|w| w.tables.figures_filter)
                    aria-label=settings.word(|w| w.tables.figures_filter)
                    prop:value=text(move || filter.get())
                    on:input=move |event| filter.set(event_target_value(&event))
                />
            </p>
            <table class="plain why">
                <thead><tr>
                    <th scope="col">{settings.word(|w| w.tables.figure)}</th>
                    <th scope="col" class="num">{settings.word(|w| w.tables.value)}</th>
                    <th scope="col">{settings.word(|w| w.tables.formula)}</th>
                    <th scope="col">{settings.word(|w| w.tables.source)}</th>
                </tr></thead>
                <tbody>{rows}</tbody>
            </table>
            {when(is_empty, empty)}
        </div>
    }
}

/// The figure's value in its unit.
fn value(figure: &Figure, unit: Unit) -> String {
    match figure.unit.as_str() {
        "B" => format::float_size(figure.value, unit),
        "s" => format::seconds(figure.value),
        "FLOP" => format::flops(figure.value),
        "1" => format::number(figure.value),
        other => format!("{}{}{other}", format::significant(figure.value), format::NBSP),
    }
}
