//! What several conformance tests share: reading captures, and a prediction that is the capture
//! itself.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use simulator::accuracy::{Part, Trace};
use simulator::wire::Timeline;
use simulator::wire::capture::{CaseCapture, read_case};
use simulator::wire::timeline::{
    BEFORE, Category, Events, NEVER, NO_LAYER, Phase, PhaseKind, Tensors,
};

/// The captured cases whose ids begin with one of some words, by id.
///
/// # Panics
///
/// When a file of the repository cannot be read.
pub fn cases(prefixes: &[&str]) -> Vec<CaseCapture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ground-truth/cases");
    let entries = fs::read_dir(folder).expect("the folder is part of the repository");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.sort();
    let begins = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    paths.iter().filter(|path| begins(path)).map(|path| case(path)).collect()
}

fn case(path: &Path) -> CaseCapture {
    let mut json = Vec::new();
    let file = fs::File::open(path).expect("a readable file");
    GzDecoder::new(file).read_to_end(&mut json).expect("gzip");
    read_case(&json).unwrap_or_else(|faults| panic!("{}: {faults}", path.display()))
}

/// The prediction that says exactly what was captured.
///
/// # Panics
///
/// When the capture frees what was never allocated.
pub fn timeline_of(capture: &CaseCapture) -> Timeline {
    let trace = Trace::of_capture(capture);
    let mut tensors = Tensors::default();
    let mut events = Events::default();
    let mut of_id = std::collections::BTreeMap::new();
    for (event, request) in trace.requests.iter().enumerate() {
        let event = u32::try_from(event).expect("few events");
        let tensor = match request.tensor.and_then(|id| of_id.get(&id).copied()) {
            Some(tensor) if !request.is_alloc => tensor,
            _ => {
                let born = if request.is_alloc { event } else { BEFORE };
                let tensor = push(&mut tensors, request.bytes, born);
                if let Some(id) = request.tensor {
                    of_id.insert(id, tensor);
                }
                tensor
            }
        };
        if !request.is_alloc {
            tensors.freed[tensor] = event;
        }
        events.time_ns.push(request.time_ns);
        events.tensor.push(u32::try_from(tensor).expect("few tensors"));
        events.is_alloc.push(u8::from(request.is_alloc));
        events.allocated.push(trace.live[event as usize + 1]);
        events.reserved.push(0);
    }
    Timeline {
        labels: Vec::from(["captured".to_owned()]),
        tensors,
        events,
        phases: phases(&trace),
        base_bytes: capture.base_alloc,
        ..Timeline::default()
    }
}

fn push(tensors: &mut Tensors, bytes: u64, born: u32) -> usize {
    tensors.bytes.push(bytes);
    tensors.born.push(born);
    tensors.freed.push(NEVER);
    tensors.category.push(Category::Activations as u8);
    tensors.name.push(0);
    tensors.primitive.push(0);
    tensors.block.push(0);
    tensors.layer.push(NO_LAYER);
    tensors.len() - 1
}

/// Phases for the parts that a prediction can have.
fn phases(trace: &Trace) -> Vec<Phase> {
    let mut forwards = 0;
    let mut phases = Vec::new();
    for span in &trace.spans {
        let kind = match span.part {
            Part::Forward => PhaseKind::Forward,
            Part::Backward => PhaseKind::Backward,
            Part::Clip => PhaseKind::Clip,
            Part::Optimizer => PhaseKind::Optimizer,
            Part::ZeroGrad => PhaseKind::ZeroGrad,
            Part::Prefill | Part::Rest => return Vec::new(),
        };
        forwards += u32::from(span.part == Part::Forward);
        let event = |event: usize| u32::try_from(event).expect("few events");
        phases.push(Phase {
            kind,
            micro_batch: if forwards == 0 { 0 } else { forwards - 1 },
            first_event: event(span.events.start),
            end_event: event(span.events.end),
            start_ns: 0,
            end_ns: 0,
        });
    }
    phases
}
