//! The cases, by the kind of server they are sent to.

use serde_json::{Value, json};

use crate::harness::{Case, Server, TOKEN, get, post, request};

const SCENARIOS: &str = "/api/v1/scenarios";
const SIMULATE: &str = "/api/v1/simulate";

fn scenario() -> Value {
    json!({
        "version": 1,
        "model": {"id": "gpt2"},
        "hardware": {"gpu": "h100-sxm"},
        "workload": {"micro_batch": 2, "seq_len": 256},
    })
}

const TOML: &str = r#"
version = 1
model.id = "gpt2"
hardware.gpu = "h100-sxm"
workload = { micro_batch = 2, seq_len = 256 }
"#;

/// Three faults: an unknown GPU, a batch of zero, a word that is no precision.
fn faulty() -> Value {
    json!({
        "version": 1,
        "model": {"id": "gpt2"},
        "hardware": {"gpu": "h100-sxm"},
        "workload": {"micro_batch": 0, "seq_len": "long"},
        "precision": "fp7",
    })
}

fn json_text(body: &str) -> Case {
    request("POST", SIMULATE).header("content-type", "application/json").text(body)
}

pub(crate) async fn open(server: &Server) {
    let mut cases = endpoints();
    cases.extend(refused());
    cases.extend(pages());
    for case in &cases {
        let answer = server.check(case).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'; "));
        assert_ne!(answer.header("permissions-policy"), "");
    }
    cached(server).await;
    faults(server).await;
}

fn endpoints() -> Vec<Case> {
    let first = format!("{SIMULATE}?timeline=first");
    let report = json!({"version": 1, "scenario": {"model": {"id": "gpt2"}}});
    Vec::from([
        get("/healthz").and(json!({"status": "ok"})).with("cache-control", "no-store"),
        get("/api/v1/openapi.json").and(json!({"info": {"title": "Tidemark"}})),
        post(SIMULATE, &scenario()).and(report.clone()).with("cache-control", "no-store"),
        post(&first, &scenario()).and(json!({"timeline": {}})),
        request("POST", SIMULATE)
            .header("content-type", "application/toml; charset=utf-8")
            .text(TOML)
            .and(report),
        get("/healthz").header("x-request-id", "mine.1").with("x-request-id", "mine.1"),
    ])
}

/// Requests that are refused, each with its stable code.
fn refused() -> Vec<Case> {
    let code = |code: &str| json!({"code": code, "type": format!("urn:tidemark:problem:{code}")});
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(65 * 1024));
    Vec::from([
        get("/api/v1/nothing").gives(404).and(code("not-found")),
        get("/api").gives(404).and(code("not-found")),
        get(SIMULATE).gives(405).with("allow", "POST").and(code("method-not-allowed")),
        request("DELETE", SCENARIOS).gives(405).with("allow", "POST"),
        get("/api/v1/scenarios/0123456789").gives(404).and(code("not-found")),
        get("/api/v1/scenarios/..%2F..%2Fetc").gives(404).and(code("not-found")),
        get("/api/v1/scenarios/%ff").gives(400),
        json_text("{").gives(400).and(code("malformed")),
        json_text(&large).gives(413).and(code("too-large")),
        request("POST", SIMULATE).text(TOML).gives(415).and(code("unsupported-media-type")),
        request("POST", SCENARIOS)
            .header("content-type", "text/plain")
            .text("{}")
            .gives(415)
            .and(code("unsupported-media-type")),
        post(&format!("{SIMULATE}?timeline=last"), &scenario())
            .gives(400)
            .and(code("invalid-query")),
        post(&format!("{SIMULATE}?tmeline=first"), &scenario())
            .gives(400)
            .and(code("invalid-query")),
        post(SCENARIOS, &json!({"scenario": scenario(), "veiw": 1}))
            .gives(400)
            .and(code("malformed")),
        post(SCENARIOS, &json!({"scenario": faulty()})).gives(422).and(code("invalid-scenario")),
        post(SIMULATE, &endless())
            .gives(422)
            .and(json!({"faults": [{"path": "workload.grad_accum", "rule": "range"}]})),
        post(SCENARIOS, &json!({"scenario": scenario()}))
            .header("host", "tidemark.example")
            .header("origin", "https://elsewhere.example")
            .gives(403)
            .and(code("cross-origin")),
    ])
}

/// A step of 126 layers, a hundred times over.
fn endless() -> Value {
    let mut endless = scenario();
    endless["model"]["id"] = json!("llama-3.1-405b");
    endless["workload"]["grad_accum"] = json!(100);
    endless
}

fn pages() -> Vec<Case> {
    Vec::from([
        get("/").with("content-type", "text/html"),
        get("/compare?s=1").with("content-type", "text/html"),
        request("HEAD", "/").with("content-type", "text/html"),
        get("/assets/app.js").gives(404).with("content-type", "text/plain"),
        get("/favicon.nothing").gives(404).with("content-type", "text/plain"),
        request("POST", "/compare").gives(405),
    ])
}

/// A client that has the catalog already gets no body again.
async fn cached(server: &Server) {
    for path in ["/api/v1/models", "/api/v1/gpus", "/api/v1/openapi.json"] {
        let answer = server.check(&get(path).with("cache-control", "no-cache")).await;
        let etag = answer.header("etag").to_owned();
        let again = server.check(&get(path).header("if-none-match", etag).gives(304)).await;
        assert!(again.body.is_empty());
    }
    let models = server.send(&get("/api/v1/models")).await.json();
    let ids = models["models"].as_array().unwrap().iter().map(|model| model["id"].clone());
    assert!(ids.collect::<Vec<_>>().contains(&json!("gpt2")));
}

/// All faults of a scenario come at once, each with its path.
async fn faults(server: &Server) {
    let answer = server.check(&post(SIMULATE, &faulty()).gives(422)).await.json();
    let faults = answer["faults"].as_array().unwrap();
    let paths: Vec<_> = faults.iter().map(|fault| fault["path"].as_str().unwrap()).collect();
    for path in ["workload.micro_batch", "workload.seq_len", "precision"] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
}

/// The same content has the same id, whatever the order of its keys, and comes back whole.
pub(crate) async fn sharing(server: &Server) {
    let view = json!({"from": 0.25, "cursor": 17});
    let share = json!({"scenario": scenario(), "view": view});
    let first = server.check(&post(SCENARIOS, &share).gives(201).with("location", SCENARIOS)).await;
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), server::short_id::SHORTEST);
    assert_eq!(first.header("location"), format!("{SCENARIOS}/{id}"));

    let reordered = r#"{"view": {"cursor": 17, "from": 0.25}, "scenario": {
        "workload": {"seq_len": 256, "micro_batch": 2, "grad_accum": 1},
        "precision": "bf16", "hardware": {"gpu": "h100-sxm"}, "model": {"id": "gpt2"}, "version": 1}}"#;
    let again = post(SCENARIOS, &Value::Null).text(reordered).and(json!({"id": id}));
    server.check(&again).await;

    let found = get(&format!("{SCENARIOS}/{id}")).with("cache-control", "immutable").and(json!({
        "id": id,
        "scenario": scenario(),
        "view": view,
        "engine": {"version": env!("CARGO_PKG_VERSION")},
        "created_at": "2026-11-30T12:00:00Z",
    }));
    server.check(&found).await;

    let without_view = post(SCENARIOS, &json!({"scenario": scenario()})).gives(201);
    let other = server.check(&without_view).await.json();
    assert_ne!(other["id"], id);
    assert_eq!(other.get("view"), None);
}

pub(crate) async fn token(server: &Server) {
    let share = || post(SCENARIOS, &json!({"scenario": scenario()}));
    let refused = |case: Case| case.gives(401).with("www-authenticate", "Bearer");
    let bearer = |token: &str| format!("Bearer {token}");
    server.check(&refused(share())).await;
    server.check(&refused(share().header("authorization", bearer("wrong")))).await;
    server.check(&refused(share().header("authorization", format!("Basic {TOKEN}")))).await;
    // A stranger learns nothing about what the body would have done.
    server.check(&refused(post(SCENARIOS, &faulty()))).await;
    let saved =
        server.check(&share().header("authorization", bearer(TOKEN)).gives(201)).await.json();
    let id = saved["id"].as_str().unwrap();
    server.check(&get(&format!("{SCENARIOS}/{id}"))).await;
    server.check(&post(SIMULATE, &scenario())).await;
}

pub(crate) async fn closed(server: &Server) {
    let share = post(SCENARIOS, &json!({"scenario": scenario()}));
    server.check(&share.gives(403).and(json!({"code": "writes-closed"}))).await;
    server.check(&post(SIMULATE, &scenario())).await;
}

pub(crate) async fn rates(server: &Server) {
    let share = post(SCENARIOS, &json!({"scenario": scenario()}));
    server.check(&share.clone().gives(201)).await;
    server.check(&share.clone().gives(200)).await;
    let answer = server.check(&share.gives(429).and(json!({"code": "rate-limited"}))).await;
    assert!(0 < answer.header("retry-after").parse::<u64>().unwrap());
    // Reading is not counted, and simulating is counted by itself.
    server.check(&get("/api/v1/gpus")).await;
    server.check(&post(SIMULATE, &scenario())).await;
}
