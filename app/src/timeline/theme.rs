//! Colours and font of the page, and the moment they change.

use std::sync::Arc;

use leptos::prelude::*;
use wasm_bindgen::JsCast as _;
use wasm_bindgen::closure::Closure;
use web_sys::{CanvasRenderingContext2d, Element, HtmlCanvasElement};

use super::palette::{Palette, Rgb};

/// What a painter needs of the page's style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Theme {
    /// Colours.
    pub palette: Arc<Palette>,
    /// Font families.
    pub font: String,
}

impl Theme {
    /// Reads the tokens that hold at an element.
    pub(super) fn at(element: &Element) -> Option<Self> {
        let style = window().get_computed_style(element).ok()??;
        let value = |name: &str| style.get_property_value(name).unwrap_or_default();
        let resolver = Resolver::new();
        let palette = Palette::read(|name| {
            let text = value(name);
            Rgb::from_hex(&text).or_else(|| resolver.as_ref()?.resolve(text.trim()))
        });
        let font = Some(value("--font")).filter(|font| !font.trim().is_empty());
        let font = font.unwrap_or_else(|| value("font-family"));
        Some(Self { palette: Arc::new(palette), font })
    }
}

/// Lets a canvas read colours that are not written as `#rrggbb`.
struct Resolver(CanvasRenderingContext2d);

impl Resolver {
    fn new() -> Option<Self> {
        let canvas: HtmlCanvasElement =
            document().create_element("canvas").ok()?.dyn_into().ok()?;
        Some(Self(canvas.get_context("2d").ok()??.dyn_into().ok()?))
    }

    fn resolve(&self, text: &str) -> Option<Rgb> {
        self.0.set_fill_style_str("#000001");
        self.0.set_fill_style_str(text);
        let colour = js_sys::Reflect::get(&self.0, &"fillStyle".into()).ok()?.as_string()?;
        Rgb::from_hex(&colour).filter(|&rgb| rgb != Rgb(0, 0, 1))
    }
}

/// Calls back when the page's theme may have changed, until the owner is cleaned up.
pub(super) fn on_theme_change(changed: impl Fn() + Clone + 'static) {
    let Some(root) = document().document_element() else { return };
    let attributes_changed = Closure::<dyn FnMut()>::new(changed.clone());
    let handler = attributes_changed.as_ref().unchecked_ref();
    let Ok(observer) = web_sys::MutationObserver::new(handler) else { return };
    let options = web_sys::MutationObserverInit::new();
    options.set_attributes(true);
    let _root_is_a_node = observer.observe_with_options(&root, &options);

    let preference = window().match_media("(prefers-color-scheme: dark)").ok().flatten();
    let preferred = Closure::<dyn FnMut()>::new(changed);
    if let Some(query) = &preference {
        query.set_onchange(Some(preferred.as_ref().unchecked_ref()));
    }
    let kept = StoredValue::new_local((observer, preference, attributes_changed, preferred));
    on_cleanup(move || {
        kept.try_with_value(|(observer, preference, _, _)| {
            observer.disconnect();
            if let Some(query) = preference {
                query.set_onchange(None);
            }
        });
    });
}
