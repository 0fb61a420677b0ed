//! What is alive at the cursor: a long table of which only the rows in sight are built.

use std::sync::Arc;

use leptos::html;
use leptos::prelude::*;
use simulator::wire::timeline::{BEFORE, Category, NEVER};

use crate::dom;
use crate::erased::{derived, effect, flag, maybe_text, memo, part, text, when};
use crate::format;
use crate::state::{Answers, Look, Settings};
use crate::timeline::TimelineData;
use crate::view_model::live::{self, Column, Order, Span};
use crate::view_model::peak::share;
use crate::words::Tables;

/// The id of the filter, for the key that focuses it.
pub(crate) const FILTER_ID: &str = "tensor-filter";

/// As in app.css.
const ROW_HEIGHT: f64 = 26.0;

type Heading = (Column, fn(&Tables) -> &'static str, &'static str);

const HEADINGS: [Heading; 8] = [
    (Column::Tensor, |words| words.tensor, "w-tensor"),
    (Column::Category, |words| words.category, "w-category"),
    (Column::Block, |words| words.block, "w-block"),
    (Column::Layer, |words| words.layer, "w-layer num"),
    (Column::Primitive, |words| words.primitive, "w-primitive"),
    (Column::Size, |words| words.size, "w-size num"),
    (Column::Born, |words| words.born, "w-event num"),
    (Column::Dies, |words| words.dies, "w-event num"),
];

/// The rows of the table and where they come from.
#[derive(Clone, Copy)]
struct Rows {
    live: Memo<Arc<live::Live>>,
    span: Memo<Option<Span>>,
}

/// The tab.
#[component]
pub(super) fn CursorTab() -> impl IntoView {
    let answers = expect_context::<Answers>();
    let look = expect_context::<Look>();
    let filter = RwSignal::new(String::new());
    let order = RwSignal::new(Order::LARGEST);
    let span = memo(move || {
        let (selection, cursor) = look.view.with(|view| (view.selection, view.cursor_event));
        answers.timeline().map(|data| {
            let span = match selection {
                Some((first, last)) => Span { first, last },
                None => Span::at(cursor.unwrap_or(data.peak_event)),
            };
            span.within(data.timeline.events.len())
        })
    });
    let live = memo(move || {
        let data = answers.timeline();
        let live = data.zip(span.get()).map(|(data, span)| {
            filter.with(|filter| live::live(&data.timeline, span, filter, order.get()))
        });
        Arc::new(live.unwrap_or_default())
    });
    let rows = Rows { live, span };
    view! {
        <div class="cursor-tab">
            <Caption rows filter />
            <LiveTable rows order />
        </div>
    }
}

/// Where the cursor is, what is alive there, and the filter.
#[component]
fn Caption(rows: Rows, filter: RwSignal<String>) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let look = expect_context::<Look>();
    let words = move || &settings.words().tables;
    let text = maybe_text(move || {
        let data = answers.timeline()?;
        let span = rows.span.get()?;
        let time_ns = |event: u32| data.timeline.events.time_ns.get(event as usize).copied();
        let [first, last] = [span.first, span.last].map(|event| format::count(event.into()));
        let start_ns = time_ns(span.first).unwrap_or_default();
        let length_ns = time_ns(span.last).unwrap_or_default().saturating_sub(start_ns);
        Some(rows.live.with(|live| {
            let count = format::count(live.count);
            let size = format::size(live.bytes, settings.unit());
            if span.is_one() {
                (words().alive)(&count, &size, &first, &format::nanoseconds(start_ns))
            } else {
                let events = format!("{first} – {last}");
                (words().alive_in)(&count, &size, &events, &format::nanoseconds(length_ns))
            }
        }))
    });
    let is_moved = memo(move || {
        look.view.with(|view| view.cursor_event.is_some() || view.selection.is_some())
    });
    let place = derived(move || {
        let words = words();
        look.view.with(|view| match view.cursor_event {
            _ if view.selection.is_some() => words.cursor_range,
            Some(_) if view.cursor_held => words.cursor_held,
            Some(_) => words.cursor_hover,
            None => words.cursor_peak,
        })
    });
    let to_peak = move |_| {
        look.view.update(|view| {
            view.cursor_event = None;
            view.cursor_held = false;
            view.selection = None;
        });
    };
    let back = move || {
        let label = settings.word(|w| w.tables.to_peak);
        view! { <button type="button" class="link" on:click=to_peak>{label}</button> }.into_any()
    };
    view! {
        <div class="caption">
            <p id="live-caption"><span class="tag">{place}</span>" "{text}</p>
            {when(move || is_moved.get(), back)}
            <input
                id=FILTER_ID
                type="search"
                class="filter"
                placeholder=settings.word(|w| w.tables.filter)
                aria-label=settings.word(|w| w.tables.filter)
                prop:value=crate::erased::text(move || filter.get())
                on:input=move |event| filter.set(event_target_value(&event))
            />
        </div>
    }
}

#[component]
fn LiveTable(rows: Rows, order: RwSignal<Order>) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let scroller = NodeRef::<html::Div>::new();
    let scroll = RwSignal::new(0.0);
    let height = RwSignal::new(0.0);
    effect(move || {
        if let Some(element) = scroller.get() {
            dom::on_resize(&element, move |_, now| {
                height.try_set(now);
            });
        }
    });
    let n = move || rows.live.with(|live| live.rows.len());
    let window = memo(move || live::window(scroll.get(), height.get(), ROW_HEIGHT, n()));
    let scrolled = move |_| {
        if let Some(element) = scroller.get_untracked() {
            scroll.set(element.scroll_top().into());
        }
    };
    let spacer = |count: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
        let pixels = count as f64 * ROW_HEIGHT;
        format!("{pixels}px")
    };
    let heading = move |(column, name, class): Heading| {
        let sort = derived(move || {
            let order = order.get();
            (order.column == column).then_some(if order.descending {
                "descending"
            } else {
                "ascending"
            })
        });
        view! {
            <th scope="col" class=class aria-sort=sort>
                <button type="button" on:click=move |_| order.update(|o| *o = o.clicked(column))>
                    {derived(move || name(&settings.words().tables))}
                    <span class="arrow" aria-hidden="true"></span>
                </button>
            </th>
        }
        .into_any()
    };
    let headings: Vec<AnyView> = HEADINGS.into_iter().map(heading).collect();
    let above = text(move || spacer(window.get().0));
    let below = text(move || spacer(n() - window.get().1.min(n())));
    let rows_in_sight = move || {
        let (first, last) = window.get();
        first..last
    };
    let empty =
        move || view! { <p class="empty">{settings.word(|w| w.tables.empty)}</p> }.into_any();
    view! {
        <div class="scroller" node_ref=scroller on:scroll=scrolled tabindex="0" role="region"
            aria-labelledby="live-caption">
            <table class="live" aria-rowcount=text(move || (n() + 1).to_string()) aria-labelledby="live-caption">
                <thead><tr aria-rowindex="1">{headings}</tr></thead>
                <tbody>
                    <tr aria-hidden="true" class="spacer" style:height=above></tr>
                    <For each=rows_in_sight key=|index| *index let:index>
                        <LiveRow rows index />
                    </For>
                    <tr aria-hidden="true" class="spacer" style:height=below></tr>
                </tbody>
            </table>
            {when(move || n() == 0, empty)}
        </div>
    }
}

/// The row at a place of the table; which tensor it shows follows the cursor.
#[component]
fn LiveRow(rows: Rows, index: usize) -> impl IntoView {
    let settings = expect_context::<Settings>();
    let answers = expect_context::<Answers>();
    let look = expect_context::<Look>();
    let tensor = memo(move || rows.live.with(|live| live.rows.get(index).copied()));
    let cells = part(move || {
        let (Some(data), Some(tensor)) = (answers.timeline(), tensor.get()) else {
            return ().into_any();
        };
        let largest = rows.live.with(|live| live.largest);
        cells(&data, tensor, largest, settings).unwrap_or_else(|| ().into_any())
    });
    let is_lit = flag(move || tensor.get().is_some_and(|t| look.hovered.get() == Some(t)));
    // A click pins the tensor in the chart, and another lets it go.
    let pin = move |_| {
        let tensor = tensor.get_untracked();
        look.view.update(|view| view.pinned = tensor.filter(|_| view.pinned != tensor));
    };
    let is_pinned = flag(move || {
        tensor.get().is_some_and(|tensor| look.view.with(|view| view.pinned == Some(tensor)))
    });
    view! {
        <tr
            aria-rowindex=(index + 2).to_string()
            class:lit=is_lit
            class:pinned=is_pinned
            on:click=pin
            on:mouseenter=move |_| look.hovered.set(tensor.get_untracked())
            on:focusin=move |_| look.hovered.set(tensor.get_untracked())
            on:mouseleave=move |_| look.hovered.set(None)
        >
            {cells}
        </tr>
    }
}

fn cells(data: &TimelineData, row: u32, largest: u64, settings: Settings) -> Option<AnyView> {
    let words = &settings.words().tables;
    let timeline = &data.timeline;
    let tensors = &timeline.tensors;
    let at = row as usize;
    let label = |column: &[u32]| {
        column.get(at).and_then(|l| timeline.labels.get(*l as usize)).cloned().unwrap_or_default()
    };
    let bytes = *tensors.bytes.get(at)?;
    let category = Category::ALL.get(usize::from(*tensors.category.get(at)?)).copied()?;
    let born = match *tensors.born.get(at)? {
        BEFORE => words.before.to_owned(),
        event => format::count(event.into()),
    };
    let dies = match *tensors.freed.get(at)? {
        NEVER => words.never.to_owned(),
        event => format::count(event.into()),
    };
    let name = label(&tensors.name);
    let part = share(bytes, largest);
    let cells = view! {
        <td class="name">
            <button type="button" title=name.clone()>{name.clone()}</button>
        </td>
        <td>
            <span class=format!("swatch c-{}", category.word())></span>
            {(settings.words().category)(category)}
        </td>
        <td>{label(&tensors.block)}</td>
        <td class="num">{live::layer(tensors, row).map(|layer| layer.to_string())}</td>
        <td>{label(&tensors.primitive)}</td>
        <td class="num size" title=format::exact(bytes)>
            <span class="bar" style:width=format!("{:.1}%", part * 100.0)></span>
            <span>{format::size(bytes, settings.unit())}</span>
        </td>
        <td class="num">{born}</td>
        <td class="num">{dies}</td>
    };
    Some(cells.into_any())
}
