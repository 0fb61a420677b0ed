//! The only requests that the page makes: to its own server, for short links.

use js_sys::Uint8Array;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Headers, Request, RequestInit, Response};

use crate::dom;

/// Fetches a JSON document, or sends one and reads the answer.
///
/// # Errors
///
/// What the server or the network said, in words.
pub(crate) async fn json(path: &str, body: Option<&str>) -> Result<Value, String> {
    let (status, bytes) = exchange(path, body).await.map_err(|error| words(&error))?;
    if !(200..300).contains(&status) {
        let problem = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
        let said = problem["detail"].as_str().or(problem["title"].as_str());
        return Err(said.map_or_else(|| status.to_string(), str::to_owned));
    }
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

async fn exchange(path: &str, body: Option<&str>) -> Result<(u16, Vec<u8>), JsValue> {
    let options = RequestInit::new();
    if let Some(body) = body {
        let headers = Headers::new()?;
        headers.set("content-type", "application/json")?;
        options.set_method("POST");
        options.set_headers(&headers);
        options.set_body(&JsValue::from_str(body));
    }
    let request = Request::new_with_str_and_init(path, &options)?;
    let window = dom::window().ok_or(JsValue::NULL)?;
    let response: Response =
        JsFuture::from(window.fetch_with_request(&request)).await?.dyn_into()?;
    let bytes = JsFuture::from(response.array_buffer()?).await?;
    Ok((response.status(), Uint8Array::new(&bytes).to_vec()))
}

/// A JavaScript error in words.
fn words(error: &JsValue) -> String {
    let message = js_sys::Reflect::get(error, &"message".into()).ok();
    message.and_then(|message| message.as_string()).unwrap_or_else(|| "network".into())
}
