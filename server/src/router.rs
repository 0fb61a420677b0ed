//! The table of endpoints and the layers around them.

use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, map_response};
use axum::response::IntoResponse;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::csrf::CsrfLayer;
use tower_http::timeout::TimeoutLayer;
use utoipa::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::error::{ApiError, Code};
use crate::extract::LARGEST_BODY;
use crate::observe::{TIMED_OUT, observe, panicked};
use crate::openapi::Base;
use crate::rate::Limiter;
use crate::routes::{catalog, health, scenarios, simulate};
use crate::state::App;
use crate::{headers, site};

/// How long a handler may take until the response's headers.
const DEADLINE: Duration = Duration::from_secs(30);

/// The endpoints; the description of the API is made from them.
pub(crate) fn api(share: &Limiter, simulations: &Limiter) -> OpenApiRouter<App> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(simulate::simulate).layer(simulations.layer()))
        .routes(routes!(scenarios::share).layer(share.layer()))
        .routes(routes!(scenarios::find))
        .routes(routes!(catalog::models))
        .routes(routes!(catalog::gpus))
        .routes(routes!(catalog::openapi));
    OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(health::healthz))
        .nest("/api/v1", v1)
}

/// The whole server: API, page, and what surrounds them.
pub fn router(app: App) -> Router {
    let (endpoints, _) = api(&app.share_limiter, &app.simulate_limiter).split_for_parts();
    let endpoints = endpoints
        .method_not_allowed_fallback(|| async {
            ApiError::new(Code::MethodNotAllowed).into_response()
        })
        .fallback(site::serve)
        .with_state(app);
    surround(endpoints)
}

/// Layers wrap what was added before them; the last one is the outermost.
fn surround(endpoints: Router) -> Router {
    endpoints
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(CsrfLayer::new())
        .layer(TimeoutLayer::with_status_code(TIMED_OUT, DEADLINE))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn(observe))
        .layer(map_response(headers::secure))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::routing::get;
    use simulator::wire::Problem;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_problem_that_says_nothing() {
        let broken = get(|| async {
            assert!(std::env::args().count() == 0, "secret");
        });
        let router = surround(Router::new().route("/api/broken", broken));
        let request = Request::get("/api/broken").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let problem: Problem = serde_json::from_slice(&body).unwrap();
        assert_eq!((problem.code.as_str(), problem.detail), ("internal", None));
        assert_eq!(problem.request_id, Some(id));
    }
}
