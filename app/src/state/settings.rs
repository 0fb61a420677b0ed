//! How things are shown: unit, language, theme. Kept in the browser.

use leptos::prelude::*;

use crate::dom;
use crate::erased::derived;
use crate::field::FieldName;
use crate::format::Unit;
use crate::timeline::TimelineSettings;
use crate::timeline::words::{CHINESE, ENGLISH};
use crate::words::{EN, Words, ZH};

/// The page's languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Language {
    #[default]
    English,
    Chinese,
}

impl Language {
    /// For `<html lang>` and storage.
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-CN",
        }
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// How things are shown.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    unit: RwSignal<Unit>,
    language: RwSignal<Language>,
    theme: RwSignal<Theme>,
}

impl Settings {
    /// As stored, or as the browser prefers.
    pub(crate) fn load() -> Self {
        let unit = if dom::stored("unit").as_deref() == Some("GB") { Unit::Gb } else { Unit::Gib };
        let tag = dom::stored("language").or_else(dom::preferred_language).unwrap_or_default();
        let language = if tag.starts_with("zh") { Language::Chinese } else { Language::English };
        let theme = if dom::root_data("theme").as_deref() == Some("dark") {
            Theme::Dark
        } else {
            Theme::Light
        };
        Self {
            unit: RwSignal::new(unit),
            language: RwSignal::new(language),
            theme: RwSignal::new(theme),
        }
    }

    /// The messages of the chosen language.
    pub(crate) fn words(self) -> &'static Words {
        match self.language.get() {
            Language::English => &EN,
            Language::Chinese => &ZH,
        }
    }

    /// One of them, following the choice; see `erased` for why it is a signal.
    pub(crate) fn word(self, pick: fn(&'static Words) -> &'static str) -> Signal<&'static str> {
        derived(move || pick(self.words()))
    }

    /// A field's label.
    pub(crate) fn label(self, field: FieldName) -> Signal<&'static str> {
        derived(move || (self.words().field)(field).label)
    }

    /// What a field means.
    pub(crate) fn help(self, field: FieldName) -> Signal<&'static str> {
        derived(move || (self.words().field)(field).help)
    }

    /// The same for the timeline, which has words of its own.
    pub(crate) fn of_timeline(self) -> TimelineSettings {
        TimelineSettings {
            words: derived(move || match self.language.get() {
                Language::English => &ENGLISH,
                Language::Chinese => &CHINESE,
            }),
            unit: self.unit.into(),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        self.unit.get()
    }

    pub(crate) fn language(self) -> Language {
        self.language.get()
    }

    pub(crate) fn theme(self) -> Theme {
        self.theme.get()
    }

    pub(crate) fn set_unit(self, unit: Unit) {
        dom::store("unit", unit.word());
        self.unit.set(unit);
    }

    pub(crate) fn set_language(self, language: Language) {
        dom::store("language", language.tag());
        self.language.set(language);
    }

    pub(crate) fn set_theme(self, theme: Theme) {
        dom::store("theme", theme.word());
        self.theme.set(theme);
    }
}
