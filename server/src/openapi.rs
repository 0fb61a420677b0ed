//! The description of the API, generated from the handlers. `openapi.json` is its committed copy.

use std::time::Duration;

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::rate::{Client, Limiter, Rate};
use crate::router;

/// What no handler says by itself.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidemark",
        description = "GPU memory of a training step, moment by moment. Errors are RFC 9457 \
                       problems (`application/problem+json`) with a stable `code`.",
        license(name = "MIT OR Apache-2.0"),
    ),
    modifiers(&Token),
    tags(
        (name = "simulate", description = "Scenario in, report out"),
        (name = "scenarios", description = "Short links"),
        (name = "catalog", description = "Known models and GPUs"),
        (name = "server", description = "The server itself"),
    ),
)]
pub(crate) struct Base;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("Needed to store something, unless the server is open"))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The whole description.
pub fn document() -> utoipa::openapi::OpenApi {
    let any = Limiter::new(Rate { burst: 1, refill: Duration::from_secs(1) }, Client::Peer);
    router::api(&any, &any).into_openapi()
}
