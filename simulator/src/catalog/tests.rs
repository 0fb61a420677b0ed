//! Every data file is an entry, and every entry is right.

use super::*;

#[test]
fn every_data_file_is_an_entry_with_its_own_id() {
    let catalog = Catalog::builtin();
    assert_eq!((catalog.gpus.len(), catalog.models.len()), (GPUS.len(), MODELS.len()));
    for (file, text) in &GPUS {
        let gpu: GpuProfile = serde_json::from_str(text).unwrap();
        assert_eq!(*file, format!("{}.toml", gpu.id));
    }
    for (file, text) in &MODELS {
        let model: ModelCard = serde_json::from_str(text).unwrap();
        assert_eq!(*file, format!("{}.toml", model.id));
    }
}

#[test]
fn names_and_aliases_lead_to_one_entry() {
    let catalog = Catalog::builtin();
    for gpu in &catalog.gpus {
        for name in gpu.aliases.iter().chain([&gpu.id, &gpu.name]) {
            if let Some(found) = catalog.gpu(name) {
                assert_eq!(found.id, gpu.id, "{name}");
            }
        }
        assert!(gpu.aliases.iter().all(|name| catalog.gpu(name).is_some()));
    }
    for model in &catalog.models {
        for name in model.aliases.iter().chain([&model.id]) {
            assert_eq!(catalog.model(name).map(|found| &found.id), Some(&model.id), "{name}");
        }
    }
    assert_eq!(catalog.gpu("nvidia h200").unwrap().id, "h200-sxm");
    assert_eq!(catalog.gpu("RTX 4090").unwrap().id, "rtx-4090");
    assert_eq!(catalog.model("Meta-Llama/Llama-3.2-1B").unwrap().id, "llama-3.2-1b");
}

#[test]
fn entries_stand_in_the_order_people_expect() {
    let catalog = Catalog::builtin();
    let place = |id: &str| catalog.models.iter().position(|card| card.id == id).unwrap();
    for pair in [
        "llama-2-7b llama-2-13b",
        "llama-2-70b llama-3-8b",
        "llama-3.1-405b llama-3.2-1b",
        "llama-3.3-70b qwen2.5-0.5b",
        "qwen2.5-72b qwen3-0.6b",
        "gpt2 gpt2-medium",
        "gpt2-medium gpt2-large",
    ] {
        let (first, second) = pair.split_once(' ').unwrap();
        assert!(place(first) < place(second), "{pair}");
    }
    let place = |id: &str| catalog.gpus.iter().position(|gpu| gpu.id == id).unwrap();
    assert!(place("a40") < place("a100-sxm-80gb") && place("v100-sxm-32gb") < place("mi300x"));
}

#[test]
fn figures_are_plausible() {
    for gpu in Catalog::builtin().gpus {
        let id = &gpu.id;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for a sanity check")]
        let usable_gb = gpu.usable_mib as f64 * 1_048_576.0 / 1e9;
        assert!((0.9..1.1).contains(&(usable_gb / gpu.memory_gb)), "{id}: {usable_gb} GB");
        let fields = serde_json::to_value(&gpu).unwrap();
        for field in &gpu.unverified {
            assert!(fields.get(field).is_some(), "{id}: `{field}` is listed but absent");
        }
        assert_eq!(gpu.measured, gpu.outside_pool.is_some(), "{id}");
        // fp8 runs at most at twice the rate of bf16, which is at most sixteen times fp32's.
        if let (Some(bf16), Some(fp8)) = (gpu.bf16_tflops, gpu.fp8_tflops) {
            assert!((0.99..2.05).contains(&(fp8 / bf16)), "{id}");
        }
    }
}

#[test]
fn unknown_ids_suggest_the_nearest() {
    let catalog = Catalog::builtin();
    let check = |fault: Fault, nearest: &str| {
        assert_eq!(fault.rule, Rule::UnknownId);
        assert_eq!(fault.mends[0].value, nearest, "{fault}");
    };
    check(catalog.unknown_gpu("hardware.gpu", "h200-smx"), "h200-sxm");
    check(catalog.unknown_gpu("hardware.gpu", "rtx 4900"), "rtx-4090");
    check(catalog.unknown_model("model.id", "llama-3.1-7b"), "llama-3.1-8b");
    check(catalog.unknown_model("model.id", "gpt2-xxl"), "gpt2-xl");
}

#[test]
fn memory_outside_the_pool_is_taken_over_with_a_wider_band() {
    let catalog = Catalog::builtin();
    let outside = |id: &str| catalog.outside_pool(catalog.gpu(id).unwrap());
    let (h200, h100, mi300x) = (outside("h200-sxm"), outside("h100-sxm"), outside("mi300x"));
    assert!(h200.measured && !h100.measured && !mi300x.measured);
    assert_eq!(h200.total(), h100.total());
    assert!(h200.band < h100.band && h100.band < mi300x.band);
    assert!(h100.source.contains("H200"));
    assert!(!Catalog::default().outside_pool(catalog.gpu("h100-sxm").unwrap()).measured);
}
