//! Which model: from the catalog, from a file, or written down field by field.

use leptos::prelude::*;
use simulator::wire::ModelKind;
use simulator::wire::report::ModelFacts;
use simulator::wire::scenario::{Model, Scenario};

use super::access::Access;
use super::import::{DropZone, Import};
use super::model_shape::ModelShape;
use super::settle;
use super::shell::FieldShell;
use crate::edit;
use crate::engine::{Rules, catalog};
use crate::erased::{flag, invalid, maybe_text, memo, part, when};
use crate::field::FieldName;
use crate::format;
use crate::state::{Answers, Choice, Look, Settings};
use crate::words::Words;

const MODEL: Access<Model> = Access {
    field: FieldName::Model,
    get: |scenario| scenario.model.clone(),
    set: settle::set_model,
};

/// The model's fields.
#[component]
pub(super) fn ModelFields() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let look = expect_context::<Look>();
    let import = expect_context::<Import>();
    let faults = Rules::here().faults_at(FieldName::Model);
    let pick = move |event: web_sys::Event| {
        let id = event_target_value(&event);
        if !id.is_empty() {
            choice.set(|scenario| settle::set_model(scenario, Model::Catalog { id }));
            look.start_anew();
            import.outcome.set(None);
        }
    };
    let is_inline = flag(move || choice.scenario.with(|scenario| edit::config(scenario).is_some()));
    let own = move || {
        view! { <option value="" selected>{settings.word(|w| w.form.own_model)}</option> }
            .into_any()
    };
    view! {
        <FieldShell field=FieldName::Model reset=MODEL.reset()>
            <select
                id=FieldName::Model.id()
                on:change=pick
                aria-invalid=invalid(move || faults.with(|f| !f.is_empty()))
            >
                {when(move || is_inline.get(), own)}
                <UnknownModel />
                {ModelKind::ALL.map(group).into_iter().collect::<Vec<_>>()}
            </select>
        </FieldShell>
        <FactsLine />
        {when(move || is_inline.get(), || view! { <ModelShape /> }.into_any())}
        <DropZone />
    }
}

/// The entries of one class.
fn group(kind: ModelKind) -> AnyView {
    let choice = expect_context::<Choice>();
    let entries = catalog().models.iter().filter(|card| card.kind == kind);
    let options: Vec<AnyView> = entries
        .map(|card| {
            let is_chosen = flag(move || choice.scenario.with(|s| is_model(s, &card.id)));
            let name = card.name.as_str();
            view! { <option value=card.id.as_str() prop:selected=is_chosen>{name}</option> }
                .into_any()
        })
        .collect();
    view! { <optgroup label=kind.word()>{options}</optgroup> }.into_any()
}

fn is_model(scenario: &Scenario, wanted: &str) -> bool {
    matches!(&scenario.model, Model::Catalog { id } if id == wanted)
}

/// The id from a link or file that the catalog does not have, so that the list shows what is asked.
#[component]
fn UnknownModel() -> impl IntoView {
    let choice = expect_context::<Choice>();
    let unknown = memo(move || {
        choice.scenario.with(|scenario| match &scenario.model {
            Model::Catalog { id } if !catalog().models.iter().any(|card| card.id == *id) => {
                Some(id.clone())
            }
            _ => None,
        })
    });
    part(move || match unknown.get() {
        Some(id) => view! { <option value=id.clone() selected>{id.clone()}</option> }.into_any(),
        None => ().into_any(),
    })
}

/// The size of the model that was simulated, and the way to edit a catalog entry's shape.
#[component]
fn FactsLine() -> impl IntoView {
    let settings = expect_context::<Settings>();
    let choice = expect_context::<Choice>();
    let answers = expect_context::<Answers>();
    // Of the model that is chosen, not of the last one that could be simulated.
    let of_answer = move |text: fn(&ModelFacts, &Words) -> String| {
        maybe_text(move || {
            let is_chosen = |model: &Model| choice.scenario.with(|chosen| chosen.model == *model);
            let text = answers.with(|answer| {
                let report = &answer.report;
                is_chosen(&report.scenario.model).then(|| text(&report.model, settings.words()))
            });
            text.flatten()
        })
    };
    let facts = of_answer(|model, words| facts_of(model, words, format::parameters));
    let exact = of_answer(|model, words| {
        format!("{} · {}", model.class, facts_of(model, words, format::count))
    });
    let card = memo(move || {
        choice.scenario.with(|scenario| match &scenario.model {
            Model::Catalog { id } => catalog().models.iter().position(|card| card.id == *id),
            Model::Inline { .. } => None,
        })
    });
    let open = move |_| {
        if let Some(index) = card.get_untracked() {
            choice.set(|scenario| scenario.model = edit::inline(&catalog().models[index]));
        }
    };
    let edit = move || {
        let label = settings.word(|w| w.form.edit_shape);
        view! { <button type="button" class="link" on:click=open>{label}</button> }.into_any()
    };
    view! {
        <p class="facts">
            <span title=exact>{facts}</span>
            {when(move || card.get().is_some(), edit)}
        </p>
    }
}

/// Parameters and layers, and how many of the parameters are kept here and trained where not all are.
fn facts_of(model: &ModelFacts, words: &Words, number: fn(u64) -> String) -> String {
    let mut text =
        (words.form.catalog_facts)(&number(model.parameters), &format::count(model.layers));
    let trained = model.trainable_parameters.filter(|count| *count != model.parameters);
    let parts =
        [(model.rank_parameters, words.form.rank_facts), (trained, words.form.trained_facts)];
    for (count, write) in parts {
        if let Some(count) = count {
            text.push_str(" · ");
            text.push_str(&write(&number(count)));
        }
    }
    text
}
