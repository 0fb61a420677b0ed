//! `world`, `parallel` and `meta_init` of a capture's `case`.

use serde_json::Value;

use super::{unsupported, unsupported_word};
use crate::scenario::{Table, limits};
use crate::wire::Faults;
use crate::wire::parallel::{DataParallel, Ddp, Fsdp, Parallel, ReduceDtype, Zero};

/// How many ranks the captured one believes in, and what they share.
pub(super) fn parallel(table: &mut Table<'_>, faults: &mut Faults) -> Option<(u64, Parallel)> {
    let count = table.integer_or("world", limits::GPU_COUNT, 1, faults)?;
    let meta_init = table.flag_or("meta_init", false, faults)?;
    let parallel = match table.value("parallel") {
        None | Some(Value::Bool(false)) => Parallel::default(),
        Some(_) => layout(table.table("parallel", faults)?, meta_init, faults)?,
    };
    if meta_init && parallel.data != Some(DataParallel::Fsdp2) {
        let reason = "models built on the meta device are simulated in shards alone";
        faults.push(unsupported(table.path("meta_init"), reason));
    }
    if 1 < count && parallel.tensor == 1 && parallel.data.is_none() {
        let reason = "several ranks that share nothing are not simulated";
        faults.push(unsupported(table.path("world"), reason));
    }
    Some((count, parallel))
}

fn layout(mut own: Table<'_>, meta_init: bool, faults: &mut Faults) -> Option<Parallel> {
    if own.value("zero").is_some() {
        return stages(own, faults);
    }
    let tensor = own.integer_or("tp", limits::GPU_COUNT, 1, faults)?;
    let [ddp, bucket_view, fsdp, mixed_precision, cpu_offload] =
        ["ddp", "bucket_view", "fsdp", "mp", "cpu_offload"]
            .map(|key| own.flag_or(key, false, faults).unwrap_or(false));
    let reshard_after_forward = own.flag_or("reshard", true, faults)?;
    // The program asks for a reduction in fp32 wherever it computes in bf16.
    let reduce = unsupported_word(&mut own, "reduce", ReduceDtype::Fp32, faults)?;
    for (key, _) in own.unknown() {
        faults.push(unsupported(own.path(key), "a layout that no scenario has"));
    }
    let data = match (ddp, fsdp) {
        (true, true) => {
            faults.push(unsupported(own.path("ddp"), "replicas either share or do not"));
            return None;
        }
        (true, false) => Some(DataParallel::Ddp),
        (false, true) => Some(DataParallel::Fsdp2),
        (false, false) => None,
    };
    let reduce_dtype = mixed_precision.then_some(reduce);
    let fsdp = Fsdp {
        reshard_after_forward,
        mixed_precision,
        reduce_dtype,
        cpu_offload,
        meta_init,
        ..Fsdp::default()
    };
    Some(Parallel {
        tensor,
        data,
        ddp: Ddp { bucket_view, ..Ddp::default() },
        fsdp: if data == Some(DataParallel::Fsdp2) { fsdp } else { Fsdp::default() },
        ..Parallel::default()
    })
}

/// `zero` is `DeepSpeed`'s stage; the other keys are those of a scenario's `parallel.zero`.
fn stages(mut own: Table<'_>, faults: &mut Faults) -> Option<Parallel> {
    let data = match own.integer_or("zero", 1..=3, 1, faults)? {
        1 => DataParallel::Zero1,
        2 => DataParallel::Zero2,
        _ => DataParallel::Zero3,
    };
    let path = own.path("zero");
    let options = own.unknown().map(|(key, value)| (key.clone(), value.clone())).collect();
    match serde_json::from_value::<Zero>(Value::Object(options)) {
        Ok(zero) => Some(Parallel { data: Some(data), zero, ..Parallel::default() }),
        Err(error) => {
            faults.push(unsupported(path, &format!("options of no stage: {error}")));
            None
        }
    }
}
